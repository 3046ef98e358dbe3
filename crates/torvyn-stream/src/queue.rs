//! The bounded queue of an edge: limited in elements and in bytes, with a policy for when it is full.
//!
//! Owned by whoever runs the turn, so it needs no lock. It grows from nothing; capacity is a limit, not an allocation.

use crate::counter::Counter;
use crate::element::Element;
use crate::ring::Ring;
use crate::stage::Emission;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Block,
    DropOldest,
    DropNewest,
    Error,
}

/// What became of an element that was offered.
#[derive(Debug)]
pub enum Offer {
    Taken,
    /// Full, and the policy does not act, or is `error`: the element comes back.
    Full(Element),
    /// Taken or not, these had to go.
    Dropped(Vec<Element>),
}

/// Facts about a queue as others read them: published by the runner at the end of a turn.
#[derive(Debug, Default)]
pub struct QueueCounters {
    /// Elements sent to this edge: `entered = taken + dropped + unread`, at the end of every turn.
    pub entered: Counter,
    /// Elements that the consumer has begun to work on.
    pub taken: Counter,
    /// Elements lost to the queue's policy or to an interrupt.
    pub dropped: Counter,
    /// Elements that nobody has taken: those that wait now and those that waited when the stream ended.
    pub unread: Counter,
    pub depth: Counter,
    pub bytes: Counter,
    pub peak: Counter,
    pub peak_bytes: Counter,
    /// How often back-pressure became active.
    pub pressured: Counter,
}

/// The same facts as the queue keeps them, written by nobody else.
#[derive(Debug, Default)]
struct Tally {
    entered: u64,
    popped: u64,
    dropped: u64,
    unread: u64,
    peak: usize,
    peak_bytes: usize,
    pressured: u64,
}

#[derive(Debug)]
pub struct Queue {
    slots: Ring,
    bytes: usize,
    depth_limit: usize,
    byte_limit: usize,
    policy: Policy,
    low_mark: usize,
    pressured: bool,
    /// The consumer had its turn and took nothing: from now on a full queue drops or fails, as its policy says.
    stalled: bool,
    /// Elements that a stage on another thread has taken as a batch but not begun: they still occupy the queue.
    lent: usize,
    lent_bytes: usize,
    tally: Tally,
}

impl Queue {
    pub fn new(depth_limit: usize, byte_limit: usize, policy: Policy, low_watermark: f64) -> Self {
        Self {
            slots: Ring::default(),
            bytes: 0,
            depth_limit: depth_limit.max(1),
            byte_limit: byte_limit.max(1),
            policy,
            low_mark: (depth_limit as f64 * low_watermark) as usize,
            pressured: false,
            stalled: false,
            lent: 0,
            lent_bytes: 0,
            tally: Tally::default(),
        }
    }

    /// An element was sent here after the consumer had stopped reading.
    pub fn note_unread(&mut self) {
        self.tally.entered += 1;
        self.tally.unread += 1;
    }

    /// An element was sent here and dropped before it could wait.
    pub fn note_dropped(&mut self) {
        self.tally.entered += 1;
        self.tally.dropped += 1;
    }

    pub fn publish(&self, to: &QueueCounters) {
        let waiting = (self.slots.len() + self.lent) as u64;
        to.entered.set(self.tally.entered);
        to.taken.set(self.tally.popped - self.lent as u64);
        to.dropped.set(self.tally.dropped);
        to.unread.set(self.tally.unread + waiting);
        to.depth.set(waiting);
        to.bytes.set((self.bytes + self.lent_bytes) as u64);
        to.peak.set(self.tally.peak as u64);
        to.peak_bytes.set(self.tally.peak_bytes as u64);
        to.pressured.set(self.tally.pressured);
    }

    #[inline]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes()
    }

    /// Whether a full queue drops or fails now. A queue that blocks never does; the others only when their consumer is
    /// slower than their producer, not because the producer's turn comes first.
    #[inline]
    pub fn acts_when_full(&self) -> bool {
        self.stalled && self.policy != Policy::Block
    }

    /// Notes whether the consumer, in its last turn, left everything where it was. True when that is news.
    pub fn note_stalled(&mut self, stalled: bool) -> bool {
        std::mem::replace(&mut self.stalled, stalled) != stalled
    }

    /// How many more elements may surely be offered. A queue that drops takes any number.
    #[inline]
    pub fn free_slots(&self) -> usize {
        if self.acts_when_full() {
            return usize::MAX;
        }
        if self.bytes + self.lent_bytes >= self.byte_limit {
            return 0;
        }
        self.depth_limit.saturating_sub(self.slots.len() + self.lent)
    }

    /// How many bytes may be offered before the queue is full.
    pub fn free_bytes(&self) -> usize {
        if self.acts_when_full() {
            return usize::MAX;
        }
        self.byte_limit.saturating_sub(self.bytes + self.lent_bytes)
    }

    /// Whether an element of so many bytes would be taken as it is.
    #[inline]
    pub fn fits(&self, len: usize) -> bool {
        let depth = self.slots.len() + self.lent;
        let bytes = self.bytes + self.lent_bytes;
        depth < self.depth_limit && (bytes + len <= self.byte_limit || depth == 0)
    }

    #[inline(always)]
    pub fn offer(&mut self, element: Element) -> Offer {
        if self.fits(element.len as usize) {
            self.put(element);
            return Offer::Taken;
        }
        self.refuse(element)
    }

    /// Makes an element in its slot, if it fits; else the emission comes back.
    #[inline(always)]
    pub fn emplace(
        &mut self,
        emission: Emission,
        owner: u16,
        sequence: u64,
        timestamp_ns: u64,
    ) -> Result<(), Emission> {
        let len = emission.len as usize;
        if !self.fits(len) {
            return Err(emission);
        }
        self.slots.emplace(emission, owner, sequence, timestamp_ns);
        self.note_put(len);
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, element: Element) -> Offer {
        self.pressure();
        match self.policy {
            _ if !self.acts_when_full() => Offer::Full(element),
            Policy::Block | Policy::Error => Offer::Full(element),
            Policy::DropNewest => {
                self.note_dropped();
                Offer::Dropped(vec![element])
            }
            Policy::DropOldest => self.make_way(element),
        }
    }

    fn make_way(&mut self, element: Element) -> Offer {
        let mut gone = Vec::new();
        while !self.fits(element.len as usize) {
            match self.slots.pop() {
                Some(oldest) => {
                    self.bytes -= oldest.len as usize;
                    gone.push(oldest);
                }
                None => break,
            }
        }
        self.tally.dropped += gone.len() as u64;
        self.put(element);
        Offer::Dropped(gone)
    }

    #[inline(always)]
    fn put(&mut self, element: Element) {
        let len = element.len as usize;
        self.slots.push(element);
        self.note_put(len);
    }

    #[inline(always)]
    fn note_put(&mut self, len: usize) {
        self.bytes += len;
        self.tally.entered += 1;
        let depth = self.slots.len() + self.lent;
        self.tally.peak = self.tally.peak.max(depth);
        self.tally.peak_bytes = self.tally.peak_bytes.max(self.bytes + self.lent_bytes);
        if depth >= self.depth_limit || self.bytes >= self.byte_limit {
            self.pressure();
        }
    }

    fn pressure(&mut self) {
        if !self.pressured {
            self.pressured = true;
            self.tally.pressured += 1;
        }
    }

    /// The element that `pop` would give, to be worked on where it lies.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut Element> {
        self.slots.front_mut()
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Element> {
        let element = self.slots.pop()?;
        self.bytes -= element.len as usize;
        self.tally.popped += 1;
        self.settle();
        Some(element)
    }

    /// Drops the first element where it lies.
    #[inline(always)]
    pub fn drop_front(&mut self) {
        if let Some(element) = self.slots.front() {
            self.bytes -= element.len as usize;
            self.slots.drop_front();
            self.tally.popped += 1;
            self.settle();
        }
    }

    /// Moves the first element to the end of another queue. False: it does not fit there, or there is none.
    #[inline(always)]
    pub fn move_front(&mut self, to: &mut Queue) -> bool {
        let Some(len) = self.slots.front().map(|element| element.len as usize) else { return false };
        if !to.fits(len) {
            return false;
        }
        self.slots.move_front(&mut to.slots);
        self.bytes -= len;
        self.tally.popped += 1;
        self.settle();
        to.note_put(len);
        true
    }

    #[inline]
    fn settle(&mut self) {
        if self.pressured && self.slots.len() + self.lent <= self.low_mark && self.bytes < self.byte_limit {
            self.pressured = false;
        }
    }

    /// Whether back-pressure is active: from full until the low watermark.
    #[inline]
    pub fn is_pressured(&self) -> bool {
        self.pressured
    }

    /// Notes that of a batch just popped, `count` elements are not begun yet.
    #[inline]
    pub fn lend(&mut self, count: usize, bytes: usize) {
        self.lent = count;
        self.lent_bytes = bytes;
        self.settle();
    }

    /// What was lent and not begun is read by nobody any more.
    pub fn leave_lent(&mut self) {
        self.tally.popped -= self.lent as u64;
        self.tally.unread += self.lent as u64;
        self.lend(0, 0);
    }

    /// `count` elements that were lent and not begun are dropped; the caller says afterwards what is still lent.
    pub fn drop_lent(&mut self, count: usize) {
        self.tally.popped -= count as u64;
        self.tally.dropped += count as u64;
    }

    /// `count` elements that were popped came back unread.
    pub fn give_back(&mut self, count: u64) {
        self.tally.popped -= count;
        self.tally.unread += count;
    }

    /// Takes out all that an interrupt may drop.
    pub fn interrupt(&mut self) -> Vec<Element> {
        let (kept, gone): (Vec<_>, Vec<_>) = self.slots.take_all().into_iter().partition(Element::keep);
        self.bytes = kept.iter().map(|element| element.len as usize).sum();
        kept.into_iter().for_each(|element| self.slots.push(element));
        self.tally.dropped += gone.len() as u64;
        self.settle();
        gone
    }

    /// Takes out everything: nobody will read it.
    pub fn discard(&mut self) -> Vec<Element> {
        let gone = self.slots.take_all();
        self.bytes = 0;
        self.tally.unread += gone.len() as u64;
        self.settle();
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn element(sequence: u64, len: usize) -> Element {
        Element::made(Emission::text(&"x".repeat(len)), 0, sequence, 0)
    }

    fn policies() -> impl Strategy<Value = Policy> {
        prop_oneof![
            Just(Policy::Block),
            Just(Policy::DropOldest),
            Just(Policy::DropNewest),
            Just(Policy::Error)
        ]
    }

    proptest! {
        /// Whatever is offered and popped: order holds, limits hold, and every element is somewhere.
        #[test]
        fn nothing_is_lost_without_being_counted(
            policy in policies(),
            depth in 1usize..20,
            bytes in 1usize..200,
            steps in prop::collection::vec(prop::option::of(0usize..60), 1..300),
        ) {
            let mut queue = Queue::new(depth, bytes, policy, 0.5);
            queue.note_stalled(true);
            let counters = QueueCounters::default();
            let (mut inside, mut came_back, mut popped) = (VecDeque::new(), 0u64, 0u64);
            let mut offered = 0u64;
            for len in steps {
                match len {
                    None => {
                        let got = queue.pop().map(|element| element.sequence);
                        popped += u64::from(got.is_some());
                        prop_assert_eq!(got, inside.pop_front().map(|(sequence, _)| sequence));
                    }
                    Some(len) => {
                        offered += 1;
                        match queue.offer(element(offered, len)) {
                            Offer::Taken => inside.push_back((offered, len)),
                            Offer::Full(back) => {
                                prop_assert_eq!(back.sequence, offered);
                                came_back += 1;
                            }
                            Offer::Dropped(gone) => {
                                for lost in gone {
                                    let oldest = inside.front().map(|(sequence, _)| *sequence);
                                    if Some(lost.sequence) == oldest {
                                        inside.pop_front();
                                    } else {
                                        prop_assert_eq!(lost.sequence, offered);
                                    }
                                }
                                if policy == Policy::DropOldest {
                                    inside.push_back((offered, len));
                                }
                            }
                        }
                    }
                }
                queue.publish(&counters);
                let held: usize = inside.iter().map(|(_, len)| len).sum();
                prop_assert_eq!(queue.len(), inside.len());
                prop_assert_eq!(counters.bytes.get() as usize, held);
                prop_assert!(inside.len() <= depth);
                prop_assert!(held <= bytes || inside.len() == 1);
                prop_assert!(counters.peak.get() as usize <= depth);
                prop_assert_eq!(counters.taken.get(), popped);
                prop_assert_eq!(counters.unread.get(), inside.len() as u64);
                let entered = counters.taken.get() + counters.dropped.get() + counters.unread.get();
                prop_assert_eq!(counters.entered.get(), entered);
                prop_assert_eq!(offered, entered + came_back);
            }
        }

        /// A move between queues is a pop and an offer.
        #[test]
        fn moving_is_popping_and_offering(depth in 1usize..6, lens in prop::collection::vec(0usize..30, 0..20)) {
            let mut from = Queue::new(100, 1 << 20, Policy::Block, 0.5);
            let mut to = Queue::new(depth, 60, Policy::Block, 0.5);
            for (sequence, len) in lens.iter().enumerate() {
                let _ = from.offer(element(sequence as u64, *len));
            }
            while from.move_front(&mut to) {}
            let moved: Vec<u64> = std::iter::from_fn(|| to.pop()).map(|e| e.sequence).collect();
            let left: Vec<u64> = std::iter::from_fn(|| from.pop()).map(|e| e.sequence).collect();
            let all: Vec<u64> = moved.iter().chain(&left).copied().collect();
            prop_assert_eq!(all, (0..lens.len() as u64).collect::<Vec<_>>());
            prop_assert!(moved.len() <= depth);
        }
    }

    #[test]
    fn back_pressure_lasts_from_full_to_the_low_watermark() {
        let mut queue = Queue::new(4, 1 << 20, Policy::Block, 0.5);
        let seen: Vec<bool> = (0..4)
            .map(|sequence| {
                let _ = queue.offer(element(sequence, 1));
                queue.is_pressured()
            })
            .collect();
        assert_eq!(seen, [false, false, false, true]);
        let seen: Vec<bool> = (0..3)
            .map(|_| {
                queue.pop();
                queue.is_pressured()
            })
            .collect();
        assert_eq!(seen, [true, false, false]);
    }

    #[test]
    fn a_policy_acts_only_while_the_consumer_stalls() {
        for policy in [Policy::DropOldest, Policy::DropNewest, Policy::Error] {
            let mut queue = Queue::new(1, 1 << 20, policy, 0.5);
            assert!(matches!(queue.offer(element(0, 1)), Offer::Taken));
            assert!(matches!(queue.offer(element(1, 1)), Offer::Full(_)));
            assert_eq!(queue.free_slots(), 0);
            assert!(queue.note_stalled(true));
            assert_eq!(queue.free_slots(), usize::MAX);
            let refused = queue.offer(element(1, 1));
            assert_eq!(matches!(refused, Offer::Dropped(_)), policy != Policy::Error);
        }
    }

    #[test]
    fn what_is_lent_still_occupies_the_queue() {
        let mut queue = Queue::new(3, 1 << 20, Policy::Block, 0.5);
        for sequence in 0..3 {
            let _ = queue.offer(element(sequence, 1));
        }
        for _ in 0..3 {
            queue.pop();
        }
        queue.lend(2, 2);
        assert_eq!(queue.free_slots(), 1);
        queue.lend(0, 0);
        assert_eq!(queue.free_slots(), 3);
    }
}
