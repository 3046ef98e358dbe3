//! Acknowledgements: which elements of a source are settled, however many elements were made from them.
//!
//! Every element of a source that asks for acknowledgements carries a receipt, and so does everything that is made from
//! it. When the last copy is dropped the element is settled, unless one of its copies was left unread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The elements of one source: how many were issued, and how far they are settled in order.
#[derive(Debug, Default)]
pub struct AckLog(Mutex<Positions>);

#[derive(Debug, Default)]
struct Positions {
    /// All positions below this one are settled.
    settled: u64,
    /// The positions from `settled` on: whether each of them is settled.
    open: VecDeque<bool>,
    /// What the source has been told.
    reported: u64,
    /// Positions are settled by checkpoints: no element carries a receipt.
    by_checkpoint: bool,
    /// How many elements were issued, when they carry none.
    issued: u64,
}

impl AckLog {
    fn lock(&self) -> MutexGuard<'_, Positions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on elements carry no receipts, and `settle_all` settles them.
    pub fn settle_by_checkpoint(&self) {
        self.lock().by_checkpoint = true;
    }

    /// Its size, with what it keeps of every element that is not settled.
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.lock().open.capacity()
    }

    /// The receipt of the source's next element.
    pub fn issue(self: &Arc<Self>) -> Option<Receipt> {
        let mut positions = self.lock();
        if positions.by_checkpoint {
            positions.issued += 1;
            return None;
        }
        let position = positions.settled + positions.open.len() as u64;
        positions.open.push_back(false);
        drop(positions);
        let single = Single { log: self.clone(), position, lost: AtomicBool::new(false) };
        Some(Receipt(Arc::new(Kind::Single(single))))
    }

    fn settle(&self, position: u64) {
        let mut positions = self.lock();
        let Some(at) = position.checked_sub(positions.settled) else { return };
        if let Some(is_settled) = positions.open.get_mut(at as usize) {
            *is_settled = true;
        }
        while positions.open.front() == Some(&true) {
            positions.open.pop_front();
            positions.settled += 1;
        }
    }

    /// How many more elements are settled, in order, since the last call.
    pub fn take_settled(&self) -> u64 {
        let mut positions = self.lock();
        let news = positions.settled - positions.reported;
        positions.reported = positions.settled;
        news
    }

    /// How many elements were issued without a receipt.
    pub fn issued(&self) -> u64 {
        self.lock().issued
    }

    /// A checkpoint holds the first `count` elements.
    pub fn settle_all(&self, count: u64) {
        let mut positions = self.lock();
        positions.settled = positions.settled.max(count);
    }

    /// How many elements were issued that the source has not been told about.
    pub fn outstanding(&self) -> u64 {
        let positions = self.lock();
        let issued = if positions.by_checkpoint {
            positions.issued
        } else {
            positions.settled + positions.open.len() as u64
        };
        issued.saturating_sub(positions.reported)
    }

    /// How many elements are issued and not settled in order.
    pub fn unsettled(&self) -> u64 {
        self.lock().open.len() as u64
    }
}

/// Proof of one or several elements of a source. Clones share it.
#[derive(Debug, Clone)]
pub struct Receipt(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Single(Single),
    /// An element that was made from several.
    Group {
        members: Vec<Receipt>,
        oldest: Option<Position>,
    },
}

/// The log of a source, by its address, and a position in it.
type Position = (usize, u64);

#[derive(Debug)]
struct Single {
    log: Arc<AckLog>,
    position: u64,
    lost: AtomicBool,
}

impl Receipt {
    /// One receipt for an element that was made from several; none for none.
    pub fn group(mut receipts: Vec<Receipt>) -> Option<Receipt> {
        match receipts.len() {
            0 | 1 => receipts.pop(),
            _ => {
                let oldest = oldest_of(&receipts);
                Some(Receipt(Arc::new(Kind::Group { members: receipts, oldest })))
            }
        }
    }

    /// The log of its source, and its oldest position there. None if it proves elements of several sources.
    pub fn oldest(&self) -> Option<Position> {
        match &*self.0 {
            Kind::Single(single) => Some((Arc::as_ptr(&single.log).addr(), single.position)),
            Kind::Group { oldest, .. } => *oldest,
        }
    }

    /// Notes that an element was left unread: its source is never told that it is settled.
    pub fn abandon(&self) {
        match &*self.0 {
            Kind::Single(single) => single.lost.store(true, Ordering::Release),
            Kind::Group { members, .. } => members.iter().for_each(Receipt::abandon),
        }
    }
}

fn oldest_of(receipts: &[Receipt]) -> Option<Position> {
    let mut positions = receipts.iter().map(Receipt::oldest);
    positions.next()?.and_then(|first| {
        positions.try_fold(first, |oldest, next| {
            next.filter(|next| next.0 == first.0).map(|next| oldest.min(next))
        })
    })
}

impl Drop for Single {
    fn drop(&mut self) {
        // What a panic drops was not settled.
        if !*self.lost.get_mut() && !std::thread::panicking() {
            self.log.settle(self.position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_copy_settles_the_element() {
        let log = Arc::<AckLog>::default();
        let receipt = log.issue().expect("a receipt");
        let copy = receipt.clone();
        drop(receipt);
        assert_eq!(log.take_settled(), 0);
        drop(copy);
        assert_eq!((log.take_settled(), log.take_settled()), (1, 0));
    }

    #[test]
    fn an_element_that_was_left_unread_stops_the_acknowledgements() {
        let log = Arc::<AckLog>::default();
        let receipts: Vec<_> = (0..3).filter_map(|_| log.issue()).collect();
        receipts[1].abandon();
        drop(receipts);
        assert_eq!((log.take_settled(), log.unsettled()), (1, 2));
    }

    #[test]
    fn a_group_settles_all_of_its_members() {
        let log = Arc::<AckLog>::default();
        let group = Receipt::group((0..5).filter_map(|_| log.issue()).collect());
        assert_eq!(log.take_settled(), 0);
        drop(group);
        assert_eq!(log.take_settled(), 5);
    }

    #[test]
    fn a_lost_group_settles_none_of_its_members() {
        let log = Arc::<AckLog>::default();
        let group = Receipt::group((0..2).filter_map(|_| log.issue()).collect());
        group.iter().for_each(Receipt::abandon);
        drop(group);
        assert_eq!((log.take_settled(), log.unsettled()), (0, 2));
    }

    proptest! {
        #[test]
        fn acknowledgements_are_the_settled_prefix(order in Just((0..40usize).collect::<Vec<_>>()).prop_shuffle()) {
            let log = Arc::<AckLog>::default();
            let mut receipts: Vec<_> = order.iter().map(|_| log.issue()).collect();
            let mut told = 0;
            for at in order {
                receipts[at] = None;
                told += log.take_settled();
                let prefix = receipts.iter().take_while(|receipt| receipt.is_none()).count();
                prop_assert_eq!(told, prefix as u64);
            }
        }
    }
}
