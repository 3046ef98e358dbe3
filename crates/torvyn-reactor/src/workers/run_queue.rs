//! The run queue: flows that wait for a worker, and timers of flows that wait for a time. It has no lock: its owner has
//! one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// What workers run.
pub(crate) trait Job: Sized {
    /// What a timer keeps of a job: enough to find it, not enough to keep it alive.
    type Handle;
    /// Whether its turns run attached to the host, which admits few at a time.
    fn is_hosted(&self) -> bool;
    /// Sets an alarm. False when an earlier one is already set.
    fn set_alarm(handle: &Self::Handle, due_ns: u64) -> bool;
    /// The time left until an alarm; None when it is due or its job is gone.
    fn time_left(handle: &Self::Handle, due_ns: u64) -> Option<Duration>;
    /// The job of a due alarm, unless it is gone or already scheduled.
    fn ring(handle: &Self::Handle, due_ns: u64) -> Option<Self>;
}

struct Timer<H> {
    due_ns: u64,
    handle: H,
}

impl<H> PartialEq for Timer<H> {
    fn eq(&self, other: &Self) -> bool {
        self.due_ns == other.due_ns
    }
}
impl<H> Eq for Timer<H> {}
impl<H> PartialOrd for Timer<H> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<H> Ord for Timer<H> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due_ns.cmp(&other.due_ns)
    }
}

/// Jobs of one kind, native or hosted.
struct Lane<J: Job> {
    waiting: VecDeque<(u64, J)>,
    timers: BinaryHeap<Reverse<Timer<J::Handle>>>,
}

impl<J: Job> Lane<J> {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), timers: BinaryHeap::new() }
    }

    fn ticket(&self) -> Option<u64> {
        self.waiting.front().map(|(ticket, _)| *ticket)
    }

    fn due_ns(&self) -> Option<u64> {
        self.timers.peek().map(|timer| timer.0.due_ns)
    }

    fn fire_timers(&mut self, ticket: &mut u64) {
        while let Some(Reverse(timer)) = self.timers.peek() {
            if J::time_left(&timer.handle, timer.due_ns).is_some() {
                return;
            }
            let Some(Reverse(timer)) = self.timers.pop() else { return };
            if let Some(job) = J::ring(&timer.handle, timer.due_ns) {
                *ticket += 1;
                self.waiting.push_back((*ticket, job));
            }
        }
    }
}

pub(crate) struct RunQueue<J: Job> {
    native: Lane<J>,
    hosted: Lane<J>,
    ticket: u64,
    hosted_running: usize,
    /// How many hosted jobs may run at a time: one, and one more for each that blocks its worker.
    pub hosted_allowed: usize,
}

impl<J: Job> RunQueue<J> {
    pub fn new() -> Self {
        Self { native: Lane::new(), hosted: Lane::new(), ticket: 0, hosted_running: 0, hosted_allowed: 1 }
    }

    fn lane(&mut self, is_hosted: bool) -> &mut Lane<J> {
        if is_hosted { &mut self.hosted } else { &mut self.native }
    }

    pub fn push(&mut self, job: J) {
        self.ticket += 1;
        let ticket = self.ticket;
        self.lane(job.is_hosted()).waiting.push_back((ticket, job));
    }

    pub fn push_timer(&mut self, is_hosted: bool, due_ns: u64, handle: J::Handle) {
        if J::set_alarm(&handle, due_ns) {
            self.lane(is_hosted).timers.push(Reverse(Timer { due_ns, handle }));
        }
    }

    pub fn fire_timers(&mut self) {
        self.native.fire_timers(&mut self.ticket);
        self.hosted.fire_timers(&mut self.ticket);
    }

    fn may_run_hosted(&self) -> bool {
        self.hosted_running < self.hosted_allowed
    }

    /// Whether a worker would find a job now.
    pub fn has_work(&self) -> bool {
        !self.native.waiting.is_empty() || (self.may_run_hosted() && !self.hosted.waiting.is_empty())
    }

    /// The job that has waited longest of those that may run.
    pub fn pick(&mut self) -> Option<J> {
        let native = self.native.ticket();
        let hosted = self.hosted.ticket().filter(|_| self.may_run_hosted());
        let take_hosted = match (native, hosted) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(native), Some(hosted)) => hosted < native,
        };
        self.hosted_running += usize::from(take_hosted);
        self.lane(take_hosted).waiting.pop_front().map(|(_, job)| job)
    }

    pub fn hosted_ended(&mut self) {
        self.hosted_running -= 1;
    }

    /// When the first timer fires whose job could run then. Hosted jobs that may not run yet are found by the worker
    /// that runs the hosted job before them, when it is done.
    pub fn due_ns(&self) -> Option<u64> {
        let hosted = self.hosted.due_ns().filter(|_| self.may_run_hosted());
        [self.native.due_ns(), hosted].into_iter().flatten().min()
    }

    /// How long to sleep until `due_ns`, by the clock of its job.
    pub fn sleep_until(&self, due_ns: u64) -> Duration {
        let heads = [self.native.timers.peek(), self.hosted.timers.peek()];
        let head = heads.into_iter().flatten().find(|timer| timer.0.due_ns == due_ns);
        let left = head.and_then(|timer| J::time_left(&timer.0.handle, due_ns));
        left.unwrap_or_default().max(Duration::from_micros(1))
    }
}
