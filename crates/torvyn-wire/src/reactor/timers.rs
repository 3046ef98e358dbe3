//! Timers, in the order in which they are due.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use super::tasks::{Ready, lock};

#[derive(Default)]
struct Queue {
    due: BTreeMap<(Instant, u64), Waker>,
    next_id: u64,
    /// When the outer loop looks at the clock again.
    armed: Option<Instant>,
}

pub struct Timers {
    queue: Mutex<Queue>,
    ready: Arc<Ready>,
}

impl Timers {
    pub fn new(ready: Arc<Ready>) -> Self {
        Self { queue: Mutex::default(), ready }
    }

    pub fn fire(&self, now: Instant) {
        let due = {
            let mut queue = lock(&self.queue);
            let later = queue.due.split_off(&(now, u64::MAX));
            std::mem::replace(&mut queue.due, later)
        };
        self.ready.watching(|| due.into_values().for_each(Waker::wake));
    }

    /// The outer loop will look at the clock at the returned time.
    pub fn arm(&self) -> Option<Instant> {
        let mut queue = lock(&self.queue);
        queue.armed = queue.due.first_key_value().map(|((at, _), _)| *at);
        queue.armed
    }

    pub fn add(&self, deadline: Instant, id: Option<u64>, waker: Waker) -> u64 {
        let mut queue = lock(&self.queue);
        let id = id.unwrap_or_else(|| {
            queue.next_id += 1;
            queue.next_id
        });
        queue.due.insert((deadline, id), waker);
        if queue.armed.is_none_or(|armed| deadline < armed) {
            queue.armed = Some(deadline);
            self.ready.ring();
        }
        id
    }

    fn remove(&self, deadline: Instant, id: u64) {
        lock(&self.queue).due.remove(&(deadline, id));
    }
}

/// Ends at a point in time.
pub struct Sleeper {
    timers: Arc<Timers>,
    deadline: Instant,
    id: Option<u64>,
    waker: Option<Waker>,
}

impl Sleeper {
    pub fn new(timers: Arc<Timers>, deadline: Instant) -> Self {
        Self { timers, deadline, id: None, waker: None }
    }

    pub fn reset(&mut self, deadline: Instant) {
        self.forget();
        self.deadline = deadline;
    }

    fn forget(&mut self) {
        if let Some(id) = self.id.take() {
            self.timers.remove(self.deadline, id);
        }
        self.waker = None;
    }
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            self.forget();
            return Poll::Ready(());
        }
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            self.waker = Some(context.waker().clone());
            self.id = Some(self.timers.add(self.deadline, self.id, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Sleep for Sleeper {}

/// The timers, as hyper wants them.
#[derive(Clone)]
pub struct WireTimer(pub(super) Arc<Timers>);

impl Timer for WireTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeper::new(self.0.clone(), deadline))
    }
}
