//! The receipts of the elements inside an aggregator or a guard.
//!
//! An element is settled when its node holds it no longer, and every output that was made since the node took it is
//! settled: it may be in any of them. Sources are acknowledged in order, so an output need not keep the receipts of all
//! these elements. The oldest one of each source holds the later ones back.

use std::collections::VecDeque;

use torvyn_stream::Receipt;

/// What is known of the elements of one source.
struct Origin {
    log: usize,
    newest: u64,
    count: usize,
}

#[derive(Default)]
pub struct Absorbed {
    /// Oldest first, with the length of each element.
    receipts: VecDeque<(Receipt, u32)>,
    origins: Vec<Origin>,
    /// Elements of one source have come in another order than it issued them, or one was made from several sources.
    is_mixed: bool,
}

impl Absorbed {
    pub fn is_empty(&self) -> bool {
        self.receipts.is_empty()
    }

    pub fn capacity_bytes(&self) -> usize {
        self.receipts.capacity() * size_of::<(Receipt, u32)>() + self.origins.capacity() * size_of::<Origin>()
    }

    pub fn push(&mut self, receipt: Receipt, length: u32) {
        match receipt.oldest() {
            None => self.is_mixed = true,
            Some((log, position)) => {
                let known = self.origins.iter_mut().find(|origin| origin.log == log);
                match known {
                    None => self.origins.push(Origin { log, newest: position, count: 1 }),
                    Some(origin) => {
                        self.is_mixed |= position < origin.newest;
                        origin.newest = origin.newest.max(position);
                        origin.count += 1;
                    }
                }
            }
        }
        self.receipts.push_back((receipt, length));
    }

    /// How many of the newest elements have so many bytes.
    pub fn newest_with(&self, bytes: usize) -> usize {
        let (mut count, mut sum) = (0, 0);
        while count < self.receipts.len() && sum < bytes {
            sum += self.receipts[self.receipts.len() - 1 - count].1 as usize;
            count += 1;
        }
        count
    }

    /// Forgets all but the newest `kept` elements.
    pub fn forget(&mut self, kept: usize) {
        self.drain(kept);
    }

    /// The receipt for the outputs of a call after which the node holds the newest `kept` elements.
    pub fn take(&mut self, kept: usize) -> Option<Receipt> {
        let mut receipts = self.drain(kept);
        self.add_oldest(&mut receipts);
        Receipt::group(receipts)
    }

    /// Everything, at the end of the node.
    pub fn take_all(&mut self) -> Vec<Receipt> {
        self.drain(0)
    }

    fn drain(&mut self, kept: usize) -> Vec<Receipt> {
        let gone = self.receipts.len().saturating_sub(kept);
        let drained: Vec<_> = self.receipts.drain(..gone).map(|(receipt, _)| receipt).collect();
        if self.receipts.is_empty() {
            self.origins.clear();
            self.is_mixed = false;
        } else {
            for (log, _) in drained.iter().filter_map(Receipt::oldest) {
                if let Some(origin) = self.origins.iter_mut().find(|origin| origin.log == log) {
                    origin.count -= 1;
                }
            }
            self.origins.retain(|origin| origin.count > 0);
        }
        drained
    }

    /// Adds the oldest receipt of every source that has elements here.
    fn add_oldest(&self, receipts: &mut Vec<Receipt>) {
        if self.is_mixed {
            receipts.extend(self.receipts.iter().map(|(receipt, _)| receipt.clone()));
            return;
        }
        let mut found: Vec<usize> = Vec::new();
        for (receipt, _) in &self.receipts {
            if found.len() == self.origins.len() {
                break;
            }
            if let Some((log, _)) = receipt.oldest()
                && !found.contains(&log)
            {
                found.push(log);
                receipts.push(receipt.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use torvyn_stream::AckLog;

    use super::*;

    #[test]
    fn elements_that_are_held_are_not_settled() {
        let (log, mut absorbed) = (Arc::<AckLog>::default(), Absorbed::default());
        (0..5).for_each(|_| absorbed.push(log.issue().expect("a receipt"), 1));
        drop(absorbed.take(2));
        assert_eq!(log.take_settled(), 3);
        absorbed.forget(0);
        assert_eq!(log.take_settled(), 2);
    }

    #[test]
    fn an_output_holds_back_the_elements_that_may_be_in_it() {
        let (log, mut absorbed) = (Arc::<AckLog>::default(), Absorbed::default());
        (0..4).for_each(|_| absorbed.push(log.issue().expect("a receipt"), 1));
        let first = absorbed.take(4);
        let second = absorbed.take(0);
        drop(second);
        assert_eq!(log.take_settled(), 0);
        drop(first);
        assert_eq!(log.take_settled(), 4);
    }

    #[test]
    fn bytes_are_those_of_the_newest_elements() {
        let (log, mut absorbed) = (Arc::<AckLog>::default(), Absorbed::default());
        (0..4).for_each(|_| absorbed.push(log.issue().expect("a receipt"), 10));
        assert_eq!([0, 1, 10, 11, 99].map(|bytes| absorbed.newest_with(bytes)), [0, 1, 1, 2, 4]);
    }

    /// An element, and the outputs that it may be in: from its call to the one after which it is not held.
    struct Taken {
        source: usize,
        position: u64,
        first: usize,
        last: usize,
    }

    proptest! {
        /// Elements of two sources come in any order, and outputs are settled in any order.
        #[test]
        fn an_element_is_settled_after_all_outputs_that_it_may_be_in(
            order in Just((0..40usize).collect::<Vec<_>>()).prop_shuffle(),
            is_ordered in any::<bool>(),
            calls in proptest::collection::vec((1..4usize, 0..8usize), 20),
            ends in Just((0..20usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let logs = [Arc::<AckLog>::default(), Arc::<AckLog>::default()];
            let mut issued: Vec<_> = (0..40).map(|at| logs[at % 2].issue()).collect();
            let order = if is_ordered { (0..40).collect() } else { order };
            let (mut absorbed, mut outputs) = (Absorbed::default(), Vec::new());
            let (mut taken, mut held): (Vec<Taken>, usize) = (Vec::new(), 0);
            for (count, kept) in calls {
                for &at in order.iter().skip(taken.len()).take(count) {
                    absorbed.push(issued[at].take().expect("a receipt"), 1);
                    let (source, position) = (at % 2, (at / 2) as u64);
                    taken.push(Taken { source, position, first: outputs.len(), last: usize::MAX });
                    held += 1;
                }
                let (first, gone) = (taken.len() - held, held.saturating_sub(kept));
                taken[first..first + gone].iter_mut().for_each(|one| one.last = outputs.len());
                held -= gone;
                outputs.push(absorbed.take(kept));
            }
            issued.iter().flatten().for_each(Receipt::abandon);
            absorbed.forget(0);
            let mut settled = [0, 0];
            for end in ends {
                outputs[end] = None;
                (0..2).for_each(|source| settled[source] += logs[source].take_settled());
                for one in taken.iter().filter(|one| one.position < settled[one.source]) {
                    let last = one.last.min(outputs.len() - 1);
                    prop_assert!(outputs[one.first..=last].iter().all(Option::is_none));
                }
            }
            prop_assert!(taken.len() < 40 || settled == [20, 20]);
        }
    }
}
