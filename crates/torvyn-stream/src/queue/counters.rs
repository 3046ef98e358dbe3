//! The counters of a queue: its own, and those that other threads read.

use crate::counter::Counter;

/// Counters that other threads read. The thread that runs the turn publishes them at its end.
#[derive(Debug, Default)]
pub struct QueueCounters {
    /// Elements that the consumer has started to process.
    pub taken: Counter,
    /// Elements lost to the queue's policy or to an interrupt.
    pub dropped: Counter,
    /// Elements that no consumer took: those waiting now and those waiting when the stream ended.
    pub unread: Counter,
    pub depth: Counter,
    pub bytes: Counter,
    pub peak: Counter,
    pub peak_bytes: Counter,
    /// How often back-pressure became active.
    pub pressured: Counter,
}

impl QueueCounters {
    /// Elements sent to this edge.
    pub fn entered(&self) -> u64 {
        self.taken.get() + self.dropped.get() + self.unread.get()
    }
}

/// The queue's own counters, which only the queue writes. What entered is what has left in any way and what waits.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub popped: u64,
    pub dropped: u64,
    pub unread: u64,
    pub peak_bytes: usize,
    pub peak: u32,
    pub pressured: u32,
}
