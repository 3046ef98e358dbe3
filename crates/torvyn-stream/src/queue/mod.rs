//! The bounded queue of an edge: limited in elements and in bytes, with a policy for when it is full.
//!
//! The thread that runs the turn owns it, so it needs no lock. It starts empty and grows: its capacity is a limit, not
//! an allocation.

mod counters;
mod loan;
mod run;

use crate::batch::Batch;
use crate::element::Element;
use crate::ring::Ring;
use crate::stage::Emission;

use counters::Counts;
pub use counters::QueueCounters;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Block,
    DropOldest,
    DropNewest,
    Error,
}

/// The result of offering an element.
#[derive(Debug)]
pub enum Offer {
    Taken,
    /// The queue is full and its policy is `error` or does not apply now: the element is returned.
    Full(Element),
    /// These elements were dropped, whether or not the offered one was taken.
    Dropped(Vec<Element>),
}

#[derive(Debug)]
pub struct Queue {
    slots: Ring,
    bytes: usize,
    byte_limit: usize,
    depth_limit: u32,
    low_mark: u32,
    policy: Policy,
    pressured: bool,
    /// The consumer ran and took nothing: from now on a full queue drops or fails, as its policy says.
    stalled: bool,
    /// Elements that an offloaded stage took as a batch and has not started: they still occupy the queue.
    lent: u32,
    lent_bytes: usize,
    counts: Counts,
}

impl Queue {
    pub fn new(depth_limit: usize, byte_limit: usize, policy: Policy, low_watermark: f64) -> Self {
        let depth_limit = u32::try_from(depth_limit).unwrap_or(u32::MAX);
        Self {
            slots: Ring::default(),
            bytes: 0,
            depth_limit: depth_limit.max(1),
            byte_limit: byte_limit.max(1),
            policy,
            low_mark: (f64::from(depth_limit) * low_watermark) as u32,
            pressured: false,
            stalled: false,
            lent: 0,
            lent_bytes: 0,
            counts: Counts::default(),
        }
    }

    /// Counts an element that was sent after the consumer had stopped reading.
    pub fn note_unread(&mut self) {
        self.counts.unread += 1;
    }

    /// Counts an element that was dropped on arrival.
    pub fn note_dropped(&mut self) {
        self.counts.dropped += 1;
    }

    pub fn publish(&self, to: &QueueCounters) {
        let waiting = self.depth() as u64;
        let (taken, unread) = (self.counts.popped - u64::from(self.lent), self.counts.unread + waiting);
        to.taken.set(taken);
        to.dropped.set(self.counts.dropped);
        to.unread.set(unread);
        to.depth.set(waiting);
        to.bytes.set((self.bytes + self.lent_bytes) as u64);
        to.peak.set(u64::from(self.counts.peak));
        to.peak_bytes.set(self.counts.peak_bytes as u64);
        to.pressured.set(u64::from(self.counts.pressured));
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

    /// How many elements occupy it, with those that are lent.
    #[inline]
    fn depth(&self) -> usize {
        self.slots.len() + self.lent as usize
    }

    /// Whether a full queue drops or fails now. A queue that blocks never does. The others do so only when their
    /// consumer is slower than their producer, not because the producer runs first.
    #[inline]
    pub fn acts_when_full(&self) -> bool {
        self.stalled && self.policy != Policy::Block
    }

    /// Notes whether the consumer took nothing when it last ran. True when that has changed.
    pub fn note_stalled(&mut self, stalled: bool) -> bool {
        std::mem::replace(&mut self.stalled, stalled) != stalled
    }

    /// How many more elements are certain to be accepted. A queue that drops accepts any number.
    #[inline]
    pub fn free_slots(&self) -> usize {
        if self.acts_when_full() {
            return usize::MAX;
        }
        if self.bytes + self.lent_bytes >= self.byte_limit {
            return 0;
        }
        (self.depth_limit as usize).saturating_sub(self.depth())
    }

    /// How many more bytes the queue accepts before it is full.
    pub fn free_bytes(&self) -> usize {
        if self.acts_when_full() {
            return usize::MAX;
        }
        self.byte_limit.saturating_sub(self.bytes + self.lent_bytes)
    }

    /// Whether an element of so many bytes is accepted without dropping any.
    #[inline]
    pub fn fits(&self, len: usize) -> bool {
        let depth = self.depth();
        let bytes = self.bytes + self.lent_bytes;
        depth < self.depth_limit as usize && (bytes + len <= self.byte_limit || depth == 0)
    }

    #[inline(always)]
    pub fn offer(&mut self, element: Element) -> Offer {
        if self.fits(element.len as usize) {
            self.put(element);
            return Offer::Taken;
        }
        self.refuse(element)
    }

    /// Builds an element in its slot if it fits, and leaves the emission empty. False: it does not fit.
    #[inline(always)]
    pub fn emplace(&mut self, emission: &mut Emission, owner: u16, sequence: u64, timestamp_ns: u64) -> bool {
        let len = emission.len as usize;
        if !self.fits(len) {
            return false;
        }
        self.slots.emplace(emission, owner, sequence, timestamp_ns);
        self.note_put(len);
        true
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
        self.counts.dropped += gone.len() as u64;
        self.put(element);
        Offer::Dropped(gone)
    }

    /// Removes the first element if its time is before `before_ns`, and counts it as dropped. One without a time is
    /// never too old.
    pub fn drop_older(&mut self, before_ns: u64) -> Option<Element> {
        let time_ns = self.slots.front()?.timestamp_ns;
        if time_ns == 0 || time_ns >= before_ns {
            return None;
        }
        let element = self.slots.pop()?;
        self.bytes -= element.len as usize;
        self.note_dropped();
        self.settle();
        Some(element)
    }

    #[inline(always)]
    fn put(&mut self, element: Element) {
        let len = element.len as usize;
        self.slots.push(element);
        self.note_put(len);
    }

    #[inline(always)]
    fn note_put(&mut self, bytes: usize) {
        self.bytes += bytes;
        let depth = self.depth() as u32;
        self.counts.peak = self.counts.peak.max(depth);
        self.counts.peak_bytes = self.counts.peak_bytes.max(self.bytes + self.lent_bytes);
        if depth >= self.depth_limit || self.bytes >= self.byte_limit {
            self.pressure();
        }
    }

    fn pressure(&mut self) {
        if !self.pressured {
            self.pressured = true;
            self.counts.pressured += 1;
        }
    }

    /// The element that `pop` would return, for work in place.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut Element> {
        self.slots.front_mut()
    }

    /// The elements that the next `most` calls of `pop` would return, for work in place.
    pub fn front_batch(&mut self, most: usize) -> Batch<'_> {
        let (first, second) = self.slots.front_slices(most);
        Batch { first, second }
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Element> {
        let element = self.slots.pop()?;
        self.bytes -= element.len as usize;
        self.counts.popped += 1;
        self.settle();
        Some(element)
    }

    /// Drops the first element in place.
    #[inline(always)]
    pub fn drop_front(&mut self) {
        if let Some(element) = self.slots.front() {
            self.bytes -= element.len as usize;
            self.slots.drop_front();
            self.counts.popped += 1;
            self.settle();
        }
    }

    /// Moves the first element to the end of another queue. False if it does not fit there or there is none.
    #[inline(always)]
    pub fn move_front(&mut self, to: &mut Queue) -> bool {
        let Some(len) = self.slots.front().map(|element| element.len as usize) else { return false };
        if !to.fits(len) {
            return false;
        }
        self.slots.move_front(&mut to.slots);
        self.bytes -= len;
        self.counts.popped += 1;
        self.settle();
        to.note_put(len);
        true
    }

    #[inline]
    fn settle(&mut self) {
        if self.pressured && self.depth() <= self.low_mark as usize && self.bytes < self.byte_limit {
            self.pressured = false;
        }
    }

    /// Whether back-pressure is active: from full until the low watermark.
    #[inline]
    pub fn is_pressured(&self) -> bool {
        self.pressured
    }

    /// Removes everything that an interrupt may drop.
    pub fn interrupt(&mut self) -> Vec<Element> {
        let (kept, gone): (Vec<_>, Vec<_>) = self.slots.take_all().into_iter().partition(Element::keep);
        self.bytes = kept.iter().map(|element| element.len as usize).sum();
        kept.into_iter().for_each(|element| self.slots.push(element));
        self.counts.dropped += gone.len() as u64;
        self.settle();
        gone
    }

    /// Removes everything; it counts as unread.
    pub fn discard(&mut self) -> Vec<Element> {
        let gone = self.slots.take_all();
        self.bytes = 0;
        self.counts.unread += gone.len() as u64;
        self.settle();
        gone
    }
}

#[cfg(test)]
mod tests;
