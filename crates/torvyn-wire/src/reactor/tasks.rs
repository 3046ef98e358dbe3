//! Tasks, and the queue of those that are ready.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

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
    /// Reused between turns.
    batch: Vec<usize>,
}

impl Tasks {
    /// Polls ready tasks until none is left, or so many were polled: then the alarm rings.
    pub fn run(&mut self, ready: &Arc<Ready>, limit: usize) {
        let mut polls = 0;
        ready.watching(|| {
            loop {
                self.adopt(ready);
                self.batch.append(&mut lock(&ready.woken));
                if self.batch.is_empty() || polls >= limit {
                    break;
                }
                let mut batch = std::mem::take(&mut self.batch);
                polls += batch.len();
                for id in batch.drain(..) {
                    self.poll(id);
                }
                self.batch = batch;
            }
        });
        if !self.batch.is_empty() {
            lock(&ready.woken).append(&mut self.batch);
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
            self.batch.push(slot.key());
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
