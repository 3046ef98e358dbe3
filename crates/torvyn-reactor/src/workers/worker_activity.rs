//! What one worker is doing, and how the watchdog judges it.
//!
//! Time alone says little about a turn: its thread may have waited for a core or for the host's lock. So the watchdog
//! checks several times whether the turn makes progress. A check does not count while the thread waits for a core.
//! Hosted turns are checked only while the watchdog itself is attached: if it got the lock, the worker could have had
//! it too.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::flow::Flow;
use crate::workers::thread_stat::{ThreadStat, own_stat_path, read_stat};

/// A turn seen in so many checks takes long, whatever it does: other flows need a worker.
const LONG_LOOKS: u32 = 5;
/// A call that is unchanged in so many checks blocks or spins.
const STUCK_LOOKS: u32 = 5;

#[derive(Default)]
pub(crate) struct WorkerActivity {
    thread: AtomicU64,
    stat_path: OnceLock<Option<PathBuf>>,
    turn: Mutex<TurnWatch>,
}

#[derive(Default)]
struct TurnWatch {
    flow: Option<Arc<Flow>>,
    progress: u64,
    cpu_ticks: u64,
    /// How often this turn was seen, and how often without progress.
    looks: u32,
    same_looks: u32,
    is_lent: bool,
    is_reported: bool,
}

/// What the watchdog must do about a worker.
#[derive(Default)]
pub(crate) struct Diagnosis {
    /// Lend a spare worker, because others have waited long enough.
    pub is_long: bool,
    /// Report that a component blocks it, once per turn.
    pub is_stuck: bool,
}

impl WorkerActivity {
    fn lock(&self) -> MutexGuard<'_, TurnWatch> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn occupy(&self, thread: u64) {
        self.thread.store(thread, Ordering::Release);
        self.stat_path.get_or_init(own_stat_path);
    }

    fn stat(&self) -> Option<ThreadStat> {
        read_stat(self.stat_path.get()?.as_deref()?)
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

    pub fn look(&self) -> Diagnosis {
        let mut turn = self.lock();
        let Some(progress) = turn.flow.as_ref().map(|flow| flow.shared.progress()) else {
            return Diagnosis::default();
        };
        let has_moved = progress != turn.progress;
        if turn.looks > 0 && turn.is_starved(self.stat()) && !has_moved {
            return Diagnosis::default();
        }
        turn.looks += 1;
        turn.same_looks = if has_moved { 1 } else { turn.same_looks + 1 };
        turn.progress = progress;
        let is_long = turn.looks >= LONG_LOOKS && !turn.is_lent;
        turn.is_lent |= is_long;
        let is_stuck = turn.same_looks >= STUCK_LOOKS && !turn.is_reported;
        turn.is_reported |= is_stuck;
        Diagnosis { is_long, is_stuck }
    }
}

impl TurnWatch {
    /// Whether the thread has waited for a core since the last check. A spinning thread uses one, a blocked thread
    /// needs none.
    fn is_starved(&mut self, stat: Option<ThreadStat>) -> bool {
        let Some(stat) = stat else { return false };
        let has_run = stat.cpu_ticks > std::mem::replace(&mut self.cpu_ticks, stat.cpu_ticks);
        stat.is_runnable && !has_run
    }
}
