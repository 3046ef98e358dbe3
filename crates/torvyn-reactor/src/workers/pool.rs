//! The worker threads that run started flows: one run queue, first come first served, with shares by credit.
//!
//! Flows with host components run one at a time, because the host has one lock; native flows use all workers. A
//! watchdog lends a spare worker when a turn takes long, and reports components that block.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::flow::{Flow, Status};
use crate::wake_pipe::{block_signals, thread_id};
use crate::workers::dispatch::{Dispatch, Next, TurnEnd};
use crate::workers::run_queue::Job;
use crate::workers::worker_activity::{Diagnosis, WorkerActivity};

/// How often the watchdog checks busy workers. It reports a component after five checks.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// How long a worker runs hosted flows before it yields its core to threads that wait for the host's lock.
const YIELD_EVERY: Duration = Duration::from_millis(5);

/// What the pool needs from the host language.
pub trait Host: Send + Sync {
    /// Runs the body of a worker thread, prepared so that `attached` is cheap.
    fn thread(&self, body: &mut (dyn FnMut() + Send));
    /// Runs `body` attached to the host.
    fn attached(&self, body: &mut dyn FnMut());
    /// A component blocks the worker with this thread id. `node` is its node, if known.
    fn blocked(&self, flow: &Arc<Flow>, node: Option<usize>, thread: u64);
}

pub struct Pool {
    dispatch: Dispatch<Arc<Flow>>,
    host: Arc<dyn Host>,
    activities: Mutex<Vec<Arc<WorkerActivity>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    pub fn start(workers: usize, host: Arc<dyn Host>) -> Arc<Self> {
        let pool = Arc::new(Self {
            dispatch: Dispatch::new(workers.max(1)),
            host,
            activities: Mutex::default(),
            threads: Mutex::default(),
        });
        for _ in 0..workers.max(1) {
            pool.add_worker();
        }
        let watched = pool.clone();
        pool.spawn("torvyn-watchdog", move || watched.watch());
        pool
    }

    /// False when the system has no thread left.
    fn spawn(&self, name: &str, body: impl FnMut() + Send + 'static) -> bool {
        let host = self.host.clone();
        let mut body = body;
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            block_signals();
            host.thread(&mut body);
        });
        let Ok(thread) = thread else { return false };
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that has ended keeps its stack until its handle is joined or dropped.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        true
    }

    fn add_worker(self: &Arc<Self>) {
        let activity = Arc::new(WorkerActivity::default());
        self.activities().push(activity.clone());
        self.dispatch.count_worker(true);
        let (pool, at) = (self.clone(), activity.clone());
        if !self.spawn("torvyn-worker", move || pool.work(&at)) {
            self.dispatch.count_worker(false);
            self.remove(&activity);
        }
    }

    fn activities(&self) -> MutexGuard<'_, Vec<Arc<WorkerActivity>>> {
        self.activities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, activity: &Arc<WorkerActivity>) {
        self.activities().retain(|known| !Arc::ptr_eq(known, activity));
    }

    /// Puts a flow at the end of the run queue. Its run state makes sure that it is there once.
    pub fn schedule(&self, flow: Arc<Flow>) {
        self.dispatch.put(flow);
    }

    fn work(self: &Arc<Self>, activity: &Arc<WorkerActivity>) {
        activity.occupy(thread_id());
        let (mut finished, mut yielded) = (None, Instant::now());
        while let Some(flow) = self.dispatch.next(finished.take()) {
            // A thread that waits for the host's lock is woken after every turn, but on a busy machine it needs a core
            // before the next turn takes the lock again. Yielding more often would give the machine to other processes.
            if flow.hosted && yielded.elapsed() > YIELD_EVERY {
                thread::yield_now();
                yielded = Instant::now();
            }
            finished = Some(self.run(flow, activity));
        }
        self.remove(activity);
    }

    fn run(&self, flow: Arc<Flow>, activity: &Arc<WorkerActivity>) -> TurnEnd<Arc<Flow>> {
        let is_hosted = flow.hosted;
        let (mut status, mut is_lent) = (None, false);
        // The wait for the host's lock is not part of the turn: no component is to blame for it.
        let mut turn = || {
            activity.begin(&flow);
            status = flow.run_turn(true, false);
            is_lent = activity.end();
        };
        if is_hosted {
            self.host.attached(&mut turn);
        } else {
            turn();
        }
        let next = match status {
            Some(Status::Again) => Next::Again(flow),
            // A manual clock wakes its flows itself; its times mean nothing to other clocks.
            Some(Status::Parked(Some(due_ns))) if !flow.clock().is_manual() => {
                let handle = Arc::downgrade(&flow);
                self.release(flow);
                Next::Until(due_ns, handle)
            }
            _ => {
                self.release(flow);
                Next::Nothing
            }
        };
        TurnEnd { is_hosted, is_lent, next }
    }

    /// Drops a flow. It may be the last owner of host objects, which must be dropped attached.
    fn release(&self, flow: Arc<Flow>) {
        if flow.hosted && Arc::strong_count(&flow) == 1 {
            let mut flow = Some(flow);
            self.host.attached(&mut || drop(flow.take()));
        }
    }

    fn watch(self: &Arc<Self>) {
        while self.dispatch.watch(WATCH_EVERY) {
            let activities = self.activities().clone();
            for activity in activities {
                self.look(&activity);
            }
        }
    }

    fn look(self: &Arc<Self>, activity: &Arc<WorkerActivity>) {
        let Some(flow) = activity.lasting_turn() else {
            activity.look();
            return;
        };
        let mut found = Diagnosis::default();
        if flow.hosted {
            self.host.attached(&mut || found = activity.look());
        } else {
            found = activity.look();
        }
        if found.is_long {
            self.dispatch.lend(flow.hosted);
            self.add_worker();
        }
        if found.is_stuck {
            self.host.blocked(&flow, flow.shared.running_node(), activity.thread());
        }
        self.release(flow);
    }

    /// Stops the workers. Returns how many a component still blocks after `patience`.
    pub fn stop(&self, patience: Duration) -> usize {
        self.dispatch.stop();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let give_up = Instant::now() + patience;
        let mut left = 0;
        for handle in threads {
            while !handle.is_finished() && Instant::now() < give_up {
                thread::park_timeout(Duration::from_millis(1));
            }
            if handle.is_finished() {
                let _ = handle.join();
            } else {
                left += 1;
            }
        }
        left
    }

    pub fn workers(&self) -> usize {
        self.dispatch.workers()
    }
}

impl Job for Arc<Flow> {
    type Handle = Weak<Flow>;

    fn is_hosted(&self) -> bool {
        self.hosted
    }

    /// One alarm at a time: a flow that parks a thousand times before its deadline sets one.
    fn set_alarm(handle: &Weak<Flow>, due_ns: u64) -> bool {
        let Some(flow) = handle.upgrade() else { return false };
        let set_ns = flow.alarm_ns.load(Ordering::Acquire);
        let is_earlier = set_ns == 0 || due_ns < set_ns;
        if is_earlier {
            flow.alarm_ns.store(due_ns, Ordering::Release);
        }
        is_earlier
    }

    fn time_left(handle: &Weak<Flow>, due_ns: u64) -> Option<Duration> {
        let now_ns = handle.upgrade()?.now_ns();
        (due_ns > now_ns).then(|| Duration::from_nanos(due_ns - now_ns))
    }

    fn ring(handle: &Weak<Flow>, due_ns: u64) -> Option<Arc<Flow>> {
        let flow = handle.upgrade()?;
        let _ = flow.alarm_ns.compare_exchange(due_ns, 0, Ordering::AcqRel, Ordering::Acquire);
        flow.claim().then_some(flow)
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
