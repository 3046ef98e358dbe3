//! Tasks, and the queue of those that are ready.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use slab::Slab;

pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic is caught per connection: what it held is still consistent enough to be dropped.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tasks that wait for their turn.
pub struct Ready {
    woken: Mutex<Vec<usize>>,
    started: Mutex<Vec<Task>>,
    alarm: mio::Waker,
    /// Whether the thread of the reactor looks at the queue anyway.
    is_watching: AtomicBool,
}

impl Ready {
    pub fn new(alarm: mio::Waker) -> Self {
        Self {
            woken: Mutex::default(),
            started: Mutex::default(),
            alarm,
            is_watching: AtomicBool::new(false),
        }
    }

    pub fn spawn(&self, task: Task) {
        lock(&self.started).push(task);
        self.ring_unless_watching();
    }

    pub fn ring(&self) {
        // Fails only if the counter of the event is at its limit: then it rings already.
        let _ = self.alarm.wake();
    }

    /// Wake-ups during `work` need no alarm.
    pub fn watching<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.is_watching.swap(true, Ordering::AcqRel);
        let made = work();
        self.is_watching.store(before, Ordering::Release);
        made
    }

    fn ring_unless_watching(&self) {
        if !self.is_watching.load(Ordering::Acquire) {
            self.ring();
        }
    }
}

struct TaskWaker {
    id: usize,
    is_queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            lock(&self.ready.woken).push(self.id);
            self.ready.ring_unless_watching();
        }
    }
}

struct Entry {
    /// Absent while it is polled.
    task: Option<Task>,
    state: Arc<TaskWaker>,
    waker: Waker,
}

#[derive(Default)]
pub struct Tasks {
    entries: Slab<Entry>,
    /// Those that were woken, in that order.
    queue: VecDeque<usize>,
}

impl Tasks {
    /// Whether the last run has left tasks to the next one.
    pub fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Polls ready tasks until none is left, or the time is over: then the alarm rings, and the next run begins with those
    /// that have waited longest.
    pub fn run(&mut self, ready: &Arc<Ready>, limit: Duration) {
        let began = Instant::now();
        ready.watching(|| {
            loop {
                if self.queue.is_empty() {
                    self.queue.extend(lock(&ready.woken).drain(..));
                    self.adopt(ready);
                }
                let Some(id) = self.queue.pop_front() else { break };
                self.poll(id);
                if began.elapsed() >= limit {
                    break;
                }
            }
        });
        if self.is_behind() || !lock(&ready.woken).is_empty() {
            ready.ring();
        }
    }

    fn adopt(&mut self, ready: &Arc<Ready>) {
        let started = std::mem::take(&mut *lock(&ready.started));
        for task in started {
            let slot = self.entries.vacant_entry();
            let state = Arc::new(TaskWaker {
                id: slot.key(),
                is_queued: AtomicBool::new(true),
                ready: ready.clone(),
            });
            self.queue.push_back(slot.key());
            let waker = Waker::from(state.clone());
            slot.insert(Entry { task: Some(task), state, waker });
        }
    }

    fn poll(&mut self, id: usize) {
        // A late wake-up may name a task that is over, or its successor, which is polled once too often.
        let Some(entry) = self.entries.get_mut(id) else { return };
        let Some(mut task) = entry.task.take() else { return };
        entry.state.is_queued.store(false, Ordering::Release);
        let waker = entry.waker.clone();
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut context)));
        if matches!(polled, Ok(Poll::Pending)) {
            self.entries[id].task = Some(task);
        } else {
            self.entries.remove(id);
            // Its connection is closed by dropping it, whatever state a panic has left it in.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::thread::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(2);

    /// Tasks that always have more to do, each poll of which takes a while; who was polled, in that order.
    fn greedy(ready: &Ready, count: usize) -> Arc<Mutex<Vec<usize>>> {
        let polled = Arc::new(Mutex::new(Vec::new()));
        for number in 0..count {
            let polled = polled.clone();
            ready.spawn(Box::pin(poll_fn(move |context| {
                lock(&polled).push(number);
                sleep(LIMIT / 4);
                context.waker().wake_by_ref();
                Poll::Pending
            })));
        }
        polled
    }

    fn ready() -> (mio::Poll, Arc<Ready>) {
        let poll = mio::Poll::new().unwrap();
        let alarm = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
        (poll, Arc::new(Ready::new(alarm)))
    }

    fn rings(poll: &mut mio::Poll) -> bool {
        let mut events = mio::Events::with_capacity(1);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        !events.is_empty()
    }

    #[test]
    fn a_run_ends_after_its_time_and_the_next_begins_with_who_has_waited_longest() {
        let ((mut poll, ready), mut tasks) = (ready(), Tasks::default());
        let polled = greedy(&ready, 20);
        let mut most = 0;
        for _ in 0..20 {
            let before = lock(&polled).len();
            tasks.run(&ready, LIMIT);
            most = most.max(lock(&polled).len() - before);
            assert!(rings(&mut poll), "the outer loop is told of what is left");
        }
        assert!(most <= 5, "{most} polls in one run");
        // By turns: whoever is polled has waited for all others.
        let polled = lock(&polled);
        assert!(polled.iter().enumerate().all(|(at, number)| *number == at % 20), "{polled:?}");
    }

    #[test]
    fn a_run_ends_when_nothing_is_ready_and_does_not_ring() {
        let ((mut poll, ready), mut tasks) = (ready(), Tasks::default());
        let polled = Arc::new(Mutex::new(0));
        for _ in 0..100 {
            let polled = polled.clone();
            ready.spawn(Box::pin(async move { *lock(&polled) += 1 }));
        }
        assert!(rings(&mut poll));
        tasks.run(&ready, Duration::from_secs(60));
        assert_eq!(*lock(&polled), 100);
        assert!(!tasks.is_behind() && !rings(&mut poll));
    }
}
