//! Stages that do not run inside a turn: coroutines on an event loop, and blocking code on a thread of its own.
//!
//! The reactor hands over tasks and collects results. Its credit bounds both, so back-pressure reaches the component
//! and passes through it. The lock is held for moves only, never during a call.

mod exchange;
mod in_flight;
mod offloaded_node;
mod worker_side;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use torvyn_stream::{Element, Emission, End, StageError, Step};

pub(crate) use exchange::Credit;
use exchange::{Exchange, WaitReason};
pub(crate) use offloaded_node::MAX_CALL;

/// What the component must do next.
#[derive(Debug)]
pub enum Task {
    Accept(Element),
    /// The input has ended in this way.
    Flush(End),
    Complete(End),
    /// Tells a source about back-pressure.
    Pressure(bool),
    Interrupt,
}

/// The result of a task.
#[derive(Debug)]
pub struct TaskResult {
    /// Whether it concludes the oldest element in flight; false for a source, a flush, or one of several results.
    pub consumed: bool,
    pub made: Vec<Emission>,
    pub ports: Vec<u16>,
    pub outcome: Result<Step, StageError>,
    /// The last result: a source's end, or the result of a flush or a completion.
    pub last: bool,
    pub end: Option<End>,
    /// The elements after this one have results too: they came from one call.
    pub followed: bool,
    /// How many elements an aggregator holds after the call, as `Stage::held_elements` says.
    pub held_elements: Option<usize>,
}

/// Wakes the thread or loop that has work.
pub trait Notify: Send + Sync {
    fn notify(&self);
}

#[derive(Default)]
pub struct Offload {
    exchange: Mutex<Exchange>,
    changed: Condvar,
    in_batches: AtomicBool,
}

impl Offload {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets who is notified of new tasks, for workers that do not block.
    pub fn set_worker(&self, worker: Arc<dyn Notify>) {
        self.lock().worker = Some(worker);
    }

    /// Sets who is notified of results.
    pub fn set_flow(&self, flow: Arc<dyn Notify>) {
        self.lock().flow = Some(flow);
    }

    /// The worker gives its component all that it takes in one call. Set before the flow is built.
    pub fn set_in_batches(&self) {
        self.in_batches.store(true, Ordering::Relaxed);
    }

    pub(crate) fn in_batches(&self) -> bool {
        self.in_batches.load(Ordering::Relaxed)
    }

    /// The size of the queues between the reactor and the worker.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let exchange = self.lock();
        exchange.tasks.capacity() * size_of::<Task>() + exchange.results.capacity() * size_of::<TaskResult>()
    }

    // Called by the reactor.

    pub(crate) fn hand_over(&self, tasks: impl IntoIterator<Item = Task>, credit: Option<Credit>) {
        let worker = {
            let mut exchange = self.lock();
            exchange.tasks.extend(tasks);
            if let Some(credit) = credit {
                exchange.grant(credit);
            }
            let wanted = (!exchange.tasks.is_empty() && !exchange.halted)
                || (exchange.waiting == WaitReason::ForCredit && exchange.credit > 0);
            if exchange.waiting == WaitReason::No || !wanted {
                return;
            }
            exchange.waiting = WaitReason::No;
            self.changed.notify_all();
            exchange.worker.clone()
        };
        if let Some(worker) = worker {
            worker.notify();
        }
    }

    /// Tells a source that `count` more of its elements are settled. It is notified even while it works.
    pub(crate) fn acknowledge(&self, count: u64) {
        let worker = {
            let mut exchange = self.lock();
            exchange.settled += count;
            self.changed.notify_all();
            exchange.worker.clone()
        };
        if let Some(worker) = worker {
            worker.notify();
        }
    }

    /// Credit that was granted and results that were not collected yet.
    pub(crate) fn outstanding(&self) -> usize {
        let exchange = self.lock();
        exchange.credit + exchange.results.len()
    }

    pub(crate) fn collect(&self, into: &mut VecDeque<TaskResult>) {
        let mut exchange = self.lock();
        if !exchange.stopped {
            into.extend(exchange.results.drain(..));
        }
    }

    /// Results that arrived after the worker was stopped.
    pub(crate) fn collect_late(&self, into: &mut VecDeque<TaskResult>) {
        into.extend(self.lock().results.drain(..));
    }

    /// Takes back the elements of `handed` that the worker has not started, and collects results. Returns how many
    /// elements, from the oldest, are concluded or started. A `paused` worker has started none.
    pub(crate) fn recall(&self, handed: usize, paused: bool, results: &mut VecDeque<TaskResult>) -> usize {
        let mut exchange = self.lock();
        results.extend(exchange.results.drain(..));
        let answered = results.iter().filter(|finished| finished.consumed).count();
        let tasks = std::mem::take(&mut exchange.tasks);
        let (elements, others): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|task| matches!(task, Task::Accept(_)));
        exchange.tasks = others.into();
        let taken = if exchange.halted { 0 } else { handed.saturating_sub(elements.len() + answered) };
        let rests = results.back().map_or(paused, |last| matches!(last.outcome, Ok(Step::Pause)));
        let started = match taken {
            _ if rests => 0,
            taken if self.in_batches() => taken,
            taken => taken.min(1),
        };
        // In batches, a worker that does not rest has started all that it took.
        exchange.recalled = taken > 0 && (rests || !self.in_batches());
        drop(exchange);
        // Dropped outside the lock: dropping them may run host code.
        drop(elements);
        answered + started
    }

    /// Continues after a failure, with the `elements` that are still in flight.
    pub(crate) fn restart(&self, elements: Vec<Task>) {
        let (worker, old) = {
            let mut exchange = self.lock();
            exchange.halted = false;
            let tasks = std::mem::take(&mut exchange.tasks);
            let (old, others): (Vec<_>, Vec<_>) =
                tasks.into_iter().partition(|task| matches!(task, Task::Accept(_)));
            exchange.tasks = elements.into_iter().chain(others).collect();
            if exchange.waiting == WaitReason::No || exchange.tasks.is_empty() {
                (None, old)
            } else {
                exchange.waiting = WaitReason::No;
                self.changed.notify_all();
                (exchange.worker.clone(), old)
            }
        };
        // Dropped outside the lock: dropping them may run host code.
        drop(old);
        if let Some(worker) = worker {
            worker.notify();
        }
    }

    /// Stops the worker: no more tasks will come. Results so far go to `results`; later ones are only counted.
    pub(crate) fn stop_after(&self, results: &mut VecDeque<TaskResult>) {
        let (worker, left) = {
            let mut exchange = self.lock();
            exchange.stopped = true;
            results.extend(exchange.results.drain(..));
            exchange.flow = None;
            self.changed.notify_all();
            (exchange.worker.take(), std::mem::take(&mut exchange.tasks))
        };
        // Dropped outside the lock: dropping them may run host code.
        drop(left);
        if let Some(worker) = worker {
            worker.notify();
        }
    }
}

#[cfg(test)]
mod tests;
