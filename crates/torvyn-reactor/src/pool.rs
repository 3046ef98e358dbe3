//! The worker threads that drive started flows: one run queue, first come first served, shares by credit.
//!
//! Flows of the host language run one at a time, because it has one lock; native flows use all workers. A watchdog
//! lends a spare worker when a component blocks one, and tells the host.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::flow::{Flow, Status};
use crate::signal::{block_signals, thread_id};

/// A turn that takes longer than this has a component in it that blocks.
const BLOCKED_AFTER: Duration = Duration::from_millis(200);
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// What the pool asks of the host language.
pub trait Host: Send + Sync {
    /// Runs the body of a worker thread, prepared so that `attached` is cheap in it.
    fn thread(&self, body: &mut (dyn FnMut() + Send));
    /// Runs `body` attached to the host.
    fn attached(&self, body: &mut dyn FnMut());
    /// A component has blocked the worker with this thread id.
    fn blocked(&self, flow: &Arc<Flow>, thread: u64);
}

struct Timer {
    due_ns: u64,
    flow: Weak<Flow>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.due_ns == other.due_ns
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due_ns.cmp(&other.due_ns)
    }
}

/// What one worker is doing, for the watchdog.
#[derive(Default)]
struct Desk {
    thread: AtomicU64,
    /// When the current turn began, in microseconds of the pool's time plus one; 0 between turns.
    since_us: AtomicU64,
    reported: AtomicBool,
    flow: Mutex<Option<Arc<Flow>>>,
}

#[derive(Default)]
struct Run {
    native: VecDeque<(u64, Arc<Flow>)>,
    hosted: VecDeque<(u64, Arc<Flow>)>,
    ticket: u64,
    hosted_running: usize,
    hosted_allowed: usize,
    timers: BinaryHeap<Reverse<Timer>>,
    busy: usize,
    workers: usize,
    /// How many there should be: those asked for, and one more for each that a component blocks.
    wanted: usize,
    stopping: bool,
}

pub struct Pool {
    run: Mutex<Run>,
    changed: Condvar,
    watch: Condvar,
    host: Arc<dyn Host>,
    desks: Mutex<Vec<Arc<Desk>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    started: Instant,
}

impl Pool {
    pub fn start(workers: usize, host: Arc<dyn Host>) -> Arc<Self> {
        let pool = Arc::new(Self {
            run: Mutex::new(Run { hosted_allowed: 1, wanted: workers.max(1), ..Run::default() }),
            changed: Condvar::new(),
            watch: Condvar::new(),
            host,
            desks: Mutex::default(),
            threads: Mutex::default(),
            started: Instant::now(),
        });
        for _ in 0..workers.max(1) {
            pool.add_worker();
        }
        let watched = pool.clone();
        pool.spawn("torvyn-watchdog", move || watched.watch());
        pool
    }

    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False when the system has no thread to give.
    fn spawn(&self, name: &str, body: impl FnMut() + Send + 'static) -> bool {
        let host = self.host.clone();
        let mut body = body;
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            block_signals();
            host.thread(&mut body);
        });
        let Ok(thread) = thread else { return false };
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that has ended keeps its stack until somebody joins it or lets go of it.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        true
    }

    fn add_worker(self: &Arc<Self>) {
        let desk = Arc::new(Desk::default());
        self.desks().push(desk.clone());
        self.lock().workers += 1;
        let (pool, at) = (self.clone(), desk.clone());
        if !self.spawn("torvyn-worker", move || pool.work(&at)) {
            self.lock().workers -= 1;
            self.remove(&desk);
        }
    }

    fn desks(&self) -> MutexGuard<'_, Vec<Arc<Desk>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, desk: &Arc<Desk>) {
        self.desks().retain(|known| !Arc::ptr_eq(known, desk));
    }

    /// Puts a flow at the end of the run queue. Its gate makes sure that it is there once.
    pub fn schedule(&self, flow: Arc<Flow>) {
        let mut run = self.lock();
        run.enqueue(flow);
        drop(run);
        self.changed.notify_one();
    }

    fn work(self: &Arc<Self>, desk: &Arc<Desk>) {
        desk.thread.store(thread_id(), Ordering::Release);
        while let Some(flow) = self.next() {
            desk.begin(&flow, self.started);
            let mut status = None;
            let mut turn = || status = flow.run_turn(true, false);
            if flow.hosted {
                self.host.attached(&mut turn);
            } else {
                turn();
            }
            let was_blocked = desk.end();
            self.done(&flow, status, was_blocked);
            if flow.hosted {
                // The flow may hold objects of the host: let go of them where that is cheap.
                let mut flow = Some(flow);
                self.host.attached(&mut || drop(flow.take()));
            }
        }
        self.remove(desk);
    }

    fn next(&self) -> Option<Arc<Flow>> {
        let mut run = self.lock();
        loop {
            if run.stopping || run.workers > run.wanted {
                run.workers -= 1;
                return None;
            }
            let now_ns = self.fire_timers(&mut run);
            if let Some(flow) = run.pick() {
                run.busy += 1;
                if run.busy == 1 {
                    self.watch.notify_one();
                }
                if run.has_work() {
                    self.changed.notify_one();
                }
                return Some(flow);
            }
            let wait = run
                .timers
                .peek()
                .zip(now_ns)
                .map(|(timer, now)| Duration::from_nanos(timer.0.due_ns.saturating_sub(now).max(1_000)));
            run = match wait {
                Some(wait) => self.changed.wait_timeout(run, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(run).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Wakes the flows whose time has come. The time now, if there are timers at all.
    fn fire_timers(&self, run: &mut Run) -> Option<u64> {
        let mut now = None;
        while let Some(Reverse(timer)) = run.timers.peek() {
            let Some(flow) = timer.flow.upgrade() else {
                run.timers.pop();
                continue;
            };
            let now_ns = *now.get_or_insert_with(|| flow.now_ns());
            if timer.due_ns > now_ns {
                break;
            }
            let due_ns = timer.due_ns;
            run.timers.pop();
            let _ = flow.alarm_ns.compare_exchange(due_ns, 0, Ordering::AcqRel, Ordering::Acquire);
            if flow.claim() {
                run.enqueue(flow);
            }
        }
        now
    }

    fn done(&self, flow: &Arc<Flow>, status: Option<Status>, was_blocked: bool) {
        let mut run = self.lock();
        run.busy -= 1;
        if flow.hosted {
            run.hosted_running -= 1;
        }
        if was_blocked {
            if flow.hosted {
                run.hosted_allowed -= 1;
            }
            run.wanted -= 1;
        }
        // A flow with a hand-driven clock is woken by the hand; its times mean nothing to the others.
        if let Some(Status::Parked(Some(due_ns))) = status
            && !flow.clock().is_manual()
        {
            // One alarm at a time: a flow that parks a thousand times before its deadline sets one.
            let set = flow.alarm_ns.load(Ordering::Acquire);
            if set == 0 || due_ns < set {
                flow.alarm_ns.store(due_ns, Ordering::Release);
                run.timers.push(Reverse(Timer { due_ns, flow: Arc::downgrade(flow) }));
            }
        }
        if run.has_work() {
            drop(run);
            self.changed.notify_one();
        }
    }

    fn watch(self: &Arc<Self>) {
        let mut run = self.lock();
        while !run.stopping {
            if run.busy == 0 {
                run = self.watch.wait(run).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            run = self.watch.wait_timeout(run, WATCH_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            drop(run);
            self.help_blocked();
            run = self.lock();
        }
    }

    fn help_blocked(self: &Arc<Self>) {
        let desks = self.desks().clone();
        for desk in desks {
            let Some(flow) = desk.blocked_for(self.started, BLOCKED_AFTER) else { continue };
            let mut run = self.lock();
            run.hosted_allowed += usize::from(flow.hosted);
            run.wanted += 1;
            drop(run);
            self.add_worker();
            self.host.blocked(&flow, desk.thread.load(Ordering::Acquire));
            let mut flow = Some(flow);
            self.host.attached(&mut || drop(flow.take()));
        }
    }

    /// Ends the workers. Those that a component blocks are left behind after `patience`; their number is returned.
    pub fn stop(&self, patience: Duration) -> usize {
        self.lock().stopping = true;
        self.changed.notify_all();
        self.watch.notify_all();
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
        self.lock().workers
    }
}

impl Run {
    fn enqueue(&mut self, flow: Arc<Flow>) {
        self.ticket += 1;
        let ticket = self.ticket;
        let lane = if flow.hosted { &mut self.hosted } else { &mut self.native };
        lane.push_back((ticket, flow));
    }

    fn may_run_hosted(&self) -> bool {
        !self.hosted.is_empty() && self.hosted_running < self.hosted_allowed
    }

    fn has_work(&self) -> bool {
        !self.native.is_empty() || self.may_run_hosted()
    }

    /// The flow that has waited longest among those that may run.
    fn pick(&mut self) -> Option<Arc<Flow>> {
        let native = self.native.front().map(|(ticket, _)| *ticket);
        let hosted = self.hosted.front().map(|(ticket, _)| *ticket).filter(|_| self.may_run_hosted());
        let take_hosted = match (native, hosted) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(native), Some(hosted)) => hosted < native,
        };
        if take_hosted {
            self.hosted_running += 1;
            return self.hosted.pop_front().map(|(_, flow)| flow);
        }
        self.native.pop_front().map(|(_, flow)| flow)
    }
}

impl Desk {
    fn begin(&self, flow: &Arc<Flow>, origin: Instant) {
        let mut current = self.flow.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(flow.clone());
        self.reported.store(false, Ordering::Release);
        self.since_us.store(origin.elapsed().as_micros() as u64 + 1, Ordering::Release);
    }

    /// Whether the turn was reported as blocked.
    fn end(&self) -> bool {
        // Held to the last line: the watchdog reports a turn that lasts, or not at all.
        let mut current = self.flow.lock().unwrap_or_else(PoisonError::into_inner);
        self.since_us.store(0, Ordering::Release);
        // Never the last reference: the worker holds one as well.
        current.take();
        self.reported.swap(false, Ordering::AcqRel)
    }

    fn blocked_for(&self, origin: Instant, limit: Duration) -> Option<Arc<Flow>> {
        let current = self.flow.lock().unwrap_or_else(PoisonError::into_inner);
        let since_us = self.since_us.load(Ordering::Acquire);
        let now_us = origin.elapsed().as_micros() as u64 + 1;
        let too_long = since_us != 0 && now_us.saturating_sub(since_us) > limit.as_micros() as u64;
        if !too_long || self.reported.load(Ordering::Acquire) {
            return None;
        }
        let flow = current.clone();
        if flow.is_some() {
            self.reported.store(true, Ordering::Release);
        }
        flow
    }
}
