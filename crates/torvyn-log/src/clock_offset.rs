//! Unix time less the flow's own time. A gateway often learns the time only after it has started: then the clock is
//! set, and elements that were written before have the time of the old clock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::edge_log::locked;

/// The offset with which elements of this run were written before a step of the clock.
struct Earlier {
    from: u64,
    before: u64,
    offset_ns: i64,
}

#[derive(Default)]
pub(crate) struct ClockOffset {
    current_ns: AtomicI64,
    is_stepped: AtomicBool,
    earlier: Mutex<Vec<Earlier>>,
}

impl ClockOffset {
    pub fn now_ns(&self) -> i64 {
        self.current_ns.load(Ordering::Relaxed)
    }

    /// The offset with which that element was written. For elements of earlier runs it is the current one, since their
    /// own is not known.
    pub fn of_ns(&self, sequence: u64) -> i64 {
        if !self.is_stepped.load(Ordering::Acquire) {
            return self.now_ns();
        }
        let earlier = locked(&self.earlier);
        let found = earlier.iter().find(|each| (each.from..each.before).contains(&sequence));
        found.map_or_else(|| self.now_ns(), |each| each.offset_ns)
    }

    /// Sets it for the first time.
    pub fn begin(&self, offset_ns: i64) {
        self.current_ns.store(offset_ns, Ordering::Relaxed);
    }

    /// The clock was set. `from` is the first element of this run, `next` the first one that comes after the step.
    pub fn step(&self, from: u64, next: u64, offset_ns: i64) {
        let mut earlier = locked(&self.earlier);
        let from = earlier.last().map_or(from, |last| last.before);
        earlier.push(Earlier { from, before: next, offset_ns: self.now_ns() });
        self.current_ns.store(offset_ns, Ordering::Relaxed);
        self.is_stepped.store(true, Ordering::Release);
    }
}
