//! Time as a flow sees it: the machine's monotonic clock, or one that a test moves by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[derive(Debug, Clone)]
pub enum Clock {
    Monotonic(Instant, u64),
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock, counted so that `now_ns` continues from `start_ns` at this moment.
    pub fn monotonic(start_ns: u64) -> Self {
        Clock::Monotonic(Instant::now(), start_ns)
    }

    pub fn manual(hand: Arc<AtomicU64>) -> Self {
        Clock::Manual(hand)
    }

    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self {
            Clock::Monotonic(origin, start) => start + origin.elapsed().as_nanos() as u64,
            Clock::Manual(hand) => hand.load(Ordering::Acquire),
        }
    }

    pub fn is_manual(&self) -> bool {
        matches!(self, Clock::Manual(_))
    }
}
