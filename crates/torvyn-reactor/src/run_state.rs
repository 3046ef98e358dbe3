//! The run state: a small state machine that admits one runner at a time and loses no wake-up.
//!
//! A wake-up while the flow is idle schedules it once; a wake-up while it runs makes it run once more.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const SCHEDULED: u8 = 1;
const RUNNING: u8 = 2;
const NOTIFIED: u8 = 3;
const CLOSED: u8 = 4;

#[derive(Debug)]
pub struct RunState(AtomicU8);

impl Default for RunState {
    fn default() -> Self {
        Self(AtomicU8::new(IDLE))
    }
}

impl RunState {
    /// Notes a wake-up. True when the caller must now schedule the flow.
    pub fn wake(&self) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let next = match seen {
                IDLE => SCHEDULED,
                RUNNING => NOTIFIED,
                _ => return false,
            };
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return next == SCHEDULED,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the flow for a turn. False when another thread runs it or it is over.
    pub fn enter(&self) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if seen != IDLE && seen != SCHEDULED {
                return false;
            }
            match self.0.compare_exchange_weak(seen, RUNNING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Returns the flow. True when it must be scheduled again: it asked for it, or was woken during the turn.
    pub fn leave(&self, again: bool) -> bool {
        if again {
            self.0.store(SCHEDULED, Ordering::Release);
            return true;
        }
        match self.0.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => false,
            Err(_) => {
                self.0.store(SCHEDULED, Ordering::Release);
                true
            }
        }
    }

    /// The flow is over: no thread enters again.
    pub fn close(&self) {
        self.0.store(CLOSED, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::RunState;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::thread;

    /// A waker publishes work and wakes; the runner must see the work, whatever the interleaving.
    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let run_state = Arc::new(RunState::default());
            let work = Arc::new(AtomicBool::new(false));
            let scheduled = Arc::new(AtomicUsize::new(0));
            assert!(run_state.enter());
            let waker = {
                let (run_state, work, scheduled) = (run_state.clone(), work.clone(), scheduled.clone());
                thread::spawn(move || {
                    work.store(true, Ordering::Release);
                    if run_state.wake() {
                        scheduled.fetch_add(1, Ordering::AcqRel);
                    }
                })
            };
            let seen = work.load(Ordering::Acquire);
            if run_state.leave(false) {
                scheduled.fetch_add(1, Ordering::AcqRel);
            }
            waker.join().unwrap();
            assert!(seen || scheduled.load(Ordering::Acquire) == 1);
            assert!(scheduled.load(Ordering::Acquire) <= 1);
        });
    }

    #[test]
    fn one_runner_at_a_time() {
        loom::model(|| {
            let run_state = Arc::new(RunState::default());
            let inside = Arc::new(AtomicUsize::new(0));
            let runner = |run_state: Arc<RunState>, inside: Arc<AtomicUsize>| {
                move || {
                    if run_state.enter() {
                        assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0);
                        inside.fetch_sub(1, Ordering::AcqRel);
                        run_state.leave(false);
                    }
                }
            };
            let other = thread::spawn(runner(run_state.clone(), inside.clone()));
            runner(run_state, inside)();
            other.join().unwrap();
        });
    }
}
