//! What one worker is doing, and how the watchdog judges it.
//!
//! Time alone says little of a turn: its thread may have waited for a core, or for the host's lock. So the watchdog
//! looks several times, at what the turn has moved between two looks, and at hosted turns only while it is attached
//! itself: it got the lock then, and so could the worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::flow::Flow;

/// A turn seen in so many looks has taken long, whatever it does: other flows need a worker.
const LONG_LOOKS: u32 = 5;
/// A call that has been the same in so many looks blocks or spins.
const STUCK_LOOKS: u32 = 5;

#[derive(Default)]
pub(crate) struct Desk {
    thread: AtomicU64,
    turn: Mutex<TurnWatch>,
}

#[derive(Default)]
struct TurnWatch {
    flow: Option<Arc<Flow>>,
    progress: u64,
    /// How often this turn has been seen, and how often without progress.
    looks: u32,
    same_looks: u32,
    is_lent: bool,
}

/// What the watchdog has to do about a worker.
#[derive(Default)]
pub(crate) struct Findings {
    /// Nobody else should wait for it any longer: lend a spare worker.
    pub is_long: bool,
    /// A component blocks it: say so. Once per turn.
    pub is_stuck: bool,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, TurnWatch> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn occupy(&self, thread: u64) {
        self.thread.store(thread, Ordering::Release);
    }

    pub fn thread(&self) -> u64 {
        self.thread.load(Ordering::Acquire)
    }

    pub fn begin(&self, flow: &Arc<Flow>) {
        *self.lock() = TurnWatch { flow: Some(flow.clone()), ..TurnWatch::default() };
    }

    /// Whether a spare worker was lent for this turn.
    pub fn end(&self) -> bool {
        // Never the last reference to the flow: the worker holds one as well.
        std::mem::take(&mut *self.lock()).is_lent
    }

    /// The flow of the turn, if the watchdog has seen this turn before.
    pub fn lasting_turn(&self) -> Option<Arc<Flow>> {
        let turn = self.lock();
        turn.flow.clone().filter(|_| turn.looks > 0)
    }

    pub fn look(&self) -> Findings {
        let mut turn = self.lock();
        let Some(progress) = turn.flow.as_ref().map(|flow| flow.shared.progress()) else {
            return Findings::default();
        };
        turn.same_looks = if progress == turn.progress { turn.same_looks + 1 } else { 1 };
        turn.progress = progress;
        turn.looks += 1;
        let is_long = turn.looks >= LONG_LOOKS && !turn.is_lent;
        turn.is_lent |= is_long;
        Findings { is_long, is_stuck: turn.same_looks == STUCK_LOOKS }
    }
}
