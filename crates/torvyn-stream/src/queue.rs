//! The bounded queue of an edge: limited in elements and in bytes, with a policy for when it is full.
//!
//! Owned by whoever runs the turn, so it needs no lock. It grows from nothing; capacity is a limit, not an allocation.

use std::collections::VecDeque;

use crate::counter::Counter;
use crate::element::Element;

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
    /// Full under `block` or `error`: the element comes back.
    Full(Element),
    /// Taken or not, these had to go.
    Dropped(Vec<Element>),
}

/// Facts about a queue that others may read while it is in use.
#[derive(Debug, Default)]
pub struct QueueCounters {
    pub pushed: Counter,
    pub popped: Counter,
    pub dropped: Counter,
    pub interrupted: Counter,
    pub discarded: Counter,
    pub depth: Counter,
    pub bytes: Counter,
    pub peak: Counter,
    pub peak_bytes: Counter,
    /// How often back-pressure became active.
    pub pressured: Counter,
}

#[derive(Debug)]
pub struct Queue {
    slots: VecDeque<Element>,
    bytes: usize,
    depth_limit: usize,
    byte_limit: usize,
    policy: Policy,
    low_mark: usize,
    pressured: bool,
    /// Elements that a stage on another thread has taken as a batch but not begun: they still occupy the queue.
    lent: usize,
    lent_bytes: usize,
}

impl Queue {
    pub fn new(depth_limit: usize, byte_limit: usize, policy: Policy, low_watermark: f64) -> Self {
        Self {
            slots: VecDeque::new(),
            bytes: 0,
            depth_limit: depth_limit.max(1),
            byte_limit: byte_limit.max(1),
            policy,
            low_mark: (depth_limit as f64 * low_watermark) as usize,
            pressured: false,
            lent: 0,
            lent_bytes: 0,
        }
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Element>()
    }

    /// How many more elements may surely be offered. A queue that drops always takes.
    #[inline]
    pub fn room(&self) -> usize {
        if self.policy != Policy::Block {
            return usize::MAX;
        }
        if self.bytes + self.lent_bytes >= self.byte_limit {
            return 0;
        }
        self.depth_limit.saturating_sub(self.slots.len() + self.lent)
    }

    #[inline]
    fn fits(&self, len: usize) -> bool {
        let depth = self.slots.len() + self.lent;
        let bytes = self.bytes + self.lent_bytes;
        depth < self.depth_limit && (bytes + len <= self.byte_limit || depth == 0)
    }

    #[inline]
    pub fn offer(&mut self, element: Element, counters: &QueueCounters) -> Offer {
        if self.fits(element.len as usize) {
            self.put(element, counters);
            return Offer::Taken;
        }
        self.pressure(counters);
        match self.policy {
            Policy::Block | Policy::Error => Offer::Full(element),
            Policy::DropNewest => {
                counters.dropped.add(1);
                Offer::Dropped(vec![element])
            }
            Policy::DropOldest => self.make_way(element, counters),
        }
    }

    fn make_way(&mut self, element: Element, counters: &QueueCounters) -> Offer {
        let mut gone = Vec::new();
        while !self.fits(element.len as usize) {
            match self.slots.pop_front() {
                Some(oldest) => {
                    self.bytes -= oldest.len as usize;
                    gone.push(oldest);
                }
                None => break,
            }
        }
        counters.dropped.add(gone.len() as u64);
        self.put(element, counters);
        Offer::Dropped(gone)
    }

    #[inline]
    fn put(&mut self, element: Element, counters: &QueueCounters) {
        self.bytes += element.len as usize;
        self.slots.push_back(element);
        counters.pushed.add(1);
        let depth = self.slots.len() + self.lent;
        counters.depth.set(depth as u64);
        counters.bytes.set((self.bytes + self.lent_bytes) as u64);
        counters.peak.raise_to(depth as u64);
        counters.peak_bytes.raise_to((self.bytes + self.lent_bytes) as u64);
        if depth >= self.depth_limit || self.bytes >= self.byte_limit {
            self.pressure(counters);
        }
    }

    fn pressure(&mut self, counters: &QueueCounters) {
        if !self.pressured {
            self.pressured = true;
            counters.pressured.add(1);
        }
    }

    #[inline]
    pub fn pop(&mut self, counters: &QueueCounters) -> Option<Element> {
        let element = self.slots.pop_front()?;
        self.bytes -= element.len as usize;
        counters.popped.add(1);
        self.settle(counters);
        Some(element)
    }

    #[inline]
    fn settle(&mut self, counters: &QueueCounters) {
        let depth = self.slots.len() + self.lent;
        counters.depth.set(depth as u64);
        counters.bytes.set((self.bytes + self.lent_bytes) as u64);
        if self.pressured && depth <= self.low_mark && self.bytes < self.byte_limit {
            self.pressured = false;
        }
    }

    /// Whether back-pressure is active: from full until the low watermark.
    pub fn is_pressured(&self) -> bool {
        self.pressured
    }

    /// Notes that of a batch just popped, `count` elements are not begun yet.
    pub fn lend(&mut self, count: usize, bytes: usize, counters: &QueueCounters) {
        self.lent = count;
        self.lent_bytes = bytes;
        self.settle(counters);
    }

    /// Takes out all that an interrupt may drop.
    pub fn interrupt(&mut self, counters: &QueueCounters) -> Vec<Element> {
        let (kept, gone): (Vec<_>, Vec<_>) = self.slots.drain(..).partition(Element::keep);
        self.slots = kept.into();
        self.bytes = self.slots.iter().map(|element| element.len as usize).sum();
        counters.interrupted.add(gone.len() as u64);
        self.settle(counters);
        gone
    }

    /// Takes out everything: the flow was cancelled or failed.
    pub fn discard(&mut self, counters: &QueueCounters) -> Vec<Element> {
        let gone: Vec<_> = self.slots.drain(..).collect();
        self.bytes = 0;
        self.slots = VecDeque::new();
        counters.discarded.add(gone.len() as u64);
        self.settle(counters);
        gone
    }
}
