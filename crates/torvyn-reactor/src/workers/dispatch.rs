//! Dispatch: gives jobs to workers and wakes as few of them as possible.
//!
//! A wake-up costs a system call and often preempts another thread. So a worker that ends a turn returns its job and
//! takes the next one under one lock, and wakes another worker only if there is more than it can take.
//!
//! The invariant, whenever the lock is free: if a job could run, or a timer fires before any worker will look, then no
//! worker sleeps, or one has been woken and has not looked yet (`is_waking`), or some worker is between two turns and
//! about to look. Code that breaks it under the lock restores it before unlocking, with `wake_one`: adding a job,
//! taking one and leaving others, and a worker that exits.
//!
//! Which worker takes the wake-up does not matter: a worker that wakes looks at everything.

use std::sync::PoisonError;
use std::time::Duration;

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::workers::run_queue::{Job, RunQueue};

/// The end of a turn.
pub(crate) struct TurnEnd<J: Job> {
    pub is_hosted: bool,
    /// A spare worker was lent to replace this one.
    pub is_lent: bool,
    pub next: Next<J>,
}

/// What happens to a job after its turn.
pub(crate) enum Next<J: Job> {
    /// It has more to do.
    Again(J),
    /// It waits for a wake-up, and until this time at most.
    Until(u64, J::Handle),
    Nothing,
}

/// The worker that sleeps only until the first timer; the others sleep until they are woken.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Timekeeper {
    number: u64,
    until_ns: u64,
}

struct State<J: Job> {
    queue: RunQueue<J>,
    asleep: usize,
    is_waking: bool,
    timekeeper: Option<Timekeeper>,
    timekeepers: u64,
    busy: usize,
    /// Turns started so far: the watchdog sleeps when there have been none for a while.
    turns: u64,
    is_watchdog_asleep: bool,
    workers: usize,
    /// How many there should be: those of the pool, and one more for each blocked worker.
    wanted: usize,
    is_stopping: bool,
}

pub(crate) struct Dispatch<J: Job> {
    state: Mutex<State<J>>,
    changed: Condvar,
    watch: Condvar,
}

impl<J: Job> Dispatch<J> {
    pub fn new(workers: usize) -> Self {
        let state = State {
            queue: RunQueue::new(),
            asleep: 0,
            is_waking: false,
            timekeeper: None,
            timekeepers: 0,
            busy: 0,
            turns: 0,
            is_watchdog_asleep: false,
            workers: 0,
            wanted: workers,
            is_stopping: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), watch: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlock(&self, mut state: MutexGuard<'_, State<J>>) {
        let must_wake = state.wake_one();
        drop(state);
        if must_wake {
            self.changed.notify_one();
        }
    }

    /// Puts a job at the end of the queue.
    pub fn put(&self, job: J) {
        let mut state = self.lock();
        state.queue.push(job);
        self.unlock(state);
    }

    /// The next job for a worker that has `finished` another; waits for one. None: the worker must exit.
    pub fn next(&self, finished: Option<TurnEnd<J>>) -> Option<J> {
        let mut state = self.lock();
        if let Some(finished) = finished {
            state.finish(finished);
        }
        loop {
            if state.is_stopping || state.workers > state.wanted {
                state.workers -= 1;
                self.unlock(state);
                return None;
            }
            state.queue.fire_timers();
            if let Some(job) = state.queue.pick() {
                state.busy += 1;
                state.turns += 1;
                let wakes_watchdog = std::mem::take(&mut state.is_watchdog_asleep);
                self.unlock(state);
                if wakes_watchdog {
                    self.watch.notify_one();
                }
                return Some(job);
            }
            state = self.sleep(state);
        }
    }

    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State<J>>) -> MutexGuard<'a, State<J>> {
        state.asleep += 1;
        let keeper = state.keep_time();
        state = match keeper {
            Some(keeper) => {
                let wait = state.queue.sleep_until(keeper.until_ns);
                self.wait_for(&self.changed, state, wait)
            }
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
        state.asleep -= 1;
        state.is_waking = false;
        if keeper.is_some() && state.timekeeper == keeper {
            state.timekeeper = None;
        }
        state
    }

    #[cfg(not(loom))]
    fn wait_for<'a>(
        &self,
        condvar: &Condvar,
        state: MutexGuard<'a, State<J>>,
        time: Duration,
    ) -> MutexGuard<'a, State<J>> {
        condvar.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The model has no time: every timed wait ends at once, and loom tries what happens in between.
    #[cfg(loom)]
    fn wait_for<'a>(
        &'a self,
        _: &Condvar,
        state: MutexGuard<'a, State<J>>,
        _: Duration,
    ) -> MutexGuard<'a, State<J>> {
        drop(state);
        self.lock()
    }

    /// Lends a worker to replace a blocked one. The caller adds it.
    pub fn lend(&self, is_hosted: bool) {
        let mut state = self.lock();
        state.wanted += 1;
        state.queue.hosted_allowed += usize::from(is_hosted);
        self.unlock(state);
    }

    /// Waits until the watchdog's next check. False when the workers stop.
    pub fn watch(&self, every: Duration) -> bool {
        let mut state = self.lock();
        let before = state.turns;
        if !state.is_stopping {
            state = self.wait_for(&self.watch, state, every);
        }
        // Not as soon as no worker is busy: none is between two turns, and a wake-up costs more than a check.
        while state.busy == 0 && state.turns == before && !state.is_stopping {
            state.is_watchdog_asleep = true;
            state = self.watch.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_watchdog_asleep = false;
        !state.is_stopping
    }

    pub fn stop(&self) {
        self.lock().is_stopping = true;
        self.changed.notify_all();
        self.watch.notify_all();
    }

    /// Counts a worker before it starts; one that could not start is subtracted again.
    pub fn count_worker(&self, is_there: bool) {
        let workers = &mut self.lock().workers;
        *workers = if is_there { *workers + 1 } else { *workers - 1 };
    }

    pub fn workers(&self) -> usize {
        self.lock().workers
    }
}

impl<J: Job> State<J> {
    fn finish(&mut self, finished: TurnEnd<J>) {
        self.busy -= 1;
        if finished.is_hosted {
            self.queue.hosted_ended();
        }
        if finished.is_lent {
            self.wanted -= 1;
            self.queue.hosted_allowed -= usize::from(finished.is_hosted);
        }
        match finished.next {
            Next::Again(job) => self.queue.push(job),
            Next::Until(due_ns, handle) => self.queue.push_timer(finished.is_hosted, due_ns, handle),
            Next::Nothing => {}
        }
    }

    /// Whether a sleeping worker must be woken. It then counts as woken.
    fn wake_one(&mut self) -> bool {
        let must_wake =
            self.asleep > 0 && !self.is_waking && (self.queue.has_work() || self.unkept_timer().is_some());
        self.is_waking |= must_wake;
        must_wake
    }

    /// A timer that fires before any worker will look.
    fn unkept_timer(&self) -> Option<u64> {
        let due_ns = self.queue.due_ns()?;
        let is_kept = self.timekeeper.is_some_and(|keeper| keeper.until_ns <= due_ns);
        (!is_kept).then_some(due_ns)
    }

    /// Makes the calling worker the timekeeper, if one is needed.
    fn keep_time(&mut self) -> Option<Timekeeper> {
        let until_ns = self.unkept_timer()?;
        self.timekeepers += 1;
        self.timekeeper = Some(Timekeeper { number: self.timekeepers, until_ns });
        self.timekeeper
    }
}

#[cfg(all(test, loom))]
#[path = "dispatch_loom.rs"]
mod loom_tests;

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
