//! The health of a node's instances: their counters, and the breaker that pauses a guest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::guest::instance::Instance;

/// What happened to a node's instances.
#[derive(Debug, Default)]
pub struct Health {
    /// Calls that did not return, and replacements that did not start.
    pub traps: AtomicU64,
    /// Instances that were dropped with their state.
    pub state_lost: AtomicU64,
    /// Instances that replaced one that trapped.
    pub replaced: AtomicU64,
    /// The time that replacements took, including `init`.
    pub replace_ns: AtomicU64,
    /// Calls refused while the breaker was open.
    pub refused: AtomicU64,
    /// The linear memory of the instance after its last call; 0 while there is none.
    pub memory_bytes: AtomicU64,
}

impl Health {
    #[inline]
    pub(crate) fn note(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub fn note_memory(&self, instance: Option<&Instance>) {
        self.memory_bytes.store(instance.map_or(0, Instance::memory_bytes), Ordering::Relaxed);
    }

    pub(crate) fn note_replaced(&self, took: Duration) {
        Self::note(&self.replaced);
        self.replace_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Opens after several traps in a row, for a time that doubles.
#[derive(Default)]
pub(crate) struct Breaker {
    in_a_row: u32,
    open_until: Option<Instant>,
}

const TRAPS_IN_A_ROW: u32 = 5;
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(10);

impl Breaker {
    pub fn record_trap(&mut self) {
        self.in_a_row += 1;
        if self.in_a_row >= TRAPS_IN_A_ROW {
            let doubled = FIRST_REST * (1 << (self.in_a_row - TRAPS_IN_A_ROW).min(10));
            self.open_until = Some(Instant::now() + doubled.min(LONGEST_REST));
        }
    }

    #[inline]
    pub fn record_answer(&mut self) {
        self.in_a_row = 0;
    }

    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// How long it stays open.
    pub fn rest(&self) -> Option<Duration> {
        let left = self.open_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}
