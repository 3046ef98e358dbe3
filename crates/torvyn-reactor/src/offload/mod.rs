//! Stages that do not run inside a turn: coroutines on an event loop, blocking code on a thread of its own.
//!
//! The reactor hands over tasks and takes back results; both lanes are bounded by the credit it grants, so
//! back-pressure reaches the component and passes through it. The lock is held for moves only, never for calls.

mod in_flight;
mod offloaded_node;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use torvyn_stream::{Element, Emission, End, StageError, Step};

/// What the component is to do next.
#[derive(Debug)]
pub enum Task {
    Accept(Element),
    /// The input has ended, in this way.
    Flush(End),
    Complete(End),
    /// A source is told of back-pressure.
    Pressure(bool),
    Interrupt,
}

/// What came of it.
#[derive(Debug)]
pub struct TaskResult {
    /// The oldest element in hand is done with; false for a source, a flush, or one of several results.
    pub consumed: bool,
    pub made: Vec<Emission>,
    pub ports: Vec<u16>,
    pub outcome: Result<Step, StageError>,
    /// The last result: a source's end, or what a flush or completion came to.
    pub last: bool,
    pub end: Option<End>,
}

/// Wakes the one who does the work.
pub trait Notify: Send + Sync {
    fn notify(&self);
}

/// What a worker that found nothing to do wants to be told of.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum WaitReason {
    #[default]
    No,
    ForTasks,
    ForCredit,
}

#[derive(Default)]
struct Exchange {
    tasks: VecDeque<Task>,
    results: VecDeque<TaskResult>,
    /// How many more elements may be made.
    credit: usize,
    /// How many more bytes; the element that uses up the last may be larger.
    byte_credit: usize,
    waiting: WaitReason,
    stopped: bool,
    /// The worker has said its last word: it makes nothing more and hears nothing any more.
    ended: bool,
    /// What the worker has taken and not begun is to be dropped: it is told with its next answer.
    recalled: bool,
    /// A call has failed: the worker has dropped what it had taken, and gets nothing until the reactor has decided.
    halted: bool,
    worker: Option<Arc<dyn Notify>>,
    flow: Option<Arc<dyn Notify>>,
}

/// What a component may make before it must ask again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Credit {
    pub elements: usize,
    pub bytes: usize,
}

impl TaskResult {
    /// The credit it used. A failure or an end takes a place as well, or it could be repeated for ever.
    pub(crate) fn used(&self) -> Credit {
        let elements = self.made.len().max(usize::from(!self.consumed));
        let bytes = self.made.iter().map(|emission| emission.len as usize).sum();
        Credit { elements, bytes }
    }
}

impl Exchange {
    fn grant(&mut self, credit: Credit) {
        self.credit = credit.elements;
        self.byte_credit = credit.bytes;
        for at in 0..self.results.len() {
            let (used, has_failed) = (self.results[at].used(), self.results[at].outcome.is_err());
            self.spend(used, has_failed);
        }
    }

    fn spend(&mut self, used: Credit, has_failed: bool) {
        self.credit = self.credit.saturating_sub(used.elements);
        self.byte_credit = self.byte_credit.saturating_sub(used.bytes);
        // What follows a failure is for the reactor to say: it may have to wait before it is tried again.
        if self.byte_credit == 0 || has_failed {
            self.credit = 0;
        }
    }
}

#[derive(Default)]
pub struct Offload {
    exchange: Mutex<Exchange>,
    changed: Condvar,
}

impl Offload {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is told when there is something to do, for workers that do not block.
    pub fn set_worker(&self, worker: Arc<dyn Notify>) {
        self.lock().worker = Some(worker);
    }

    /// Who is told when there are results.
    pub fn set_flow(&self, flow: Arc<dyn Notify>) {
        self.lock().flow = Some(flow);
    }

    // The reactor's side.

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

    /// What was granted and not fetched back yet.
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

    /// What was delivered after the worker had been stopped.
    pub(crate) fn collect_late(&self, into: &mut VecDeque<TaskResult>) {
        into.extend(self.lock().results.drain(..));
    }

    /// Takes back what the worker has not begun of the `handed` elements; results come along. Gives how many
    /// elements from the oldest on are done or begun. A worker that was `paused` has begun none.
    pub(crate) fn recall(&self, handed: usize, paused: bool, results: &mut VecDeque<TaskResult>) -> usize {
        let mut exchange = self.lock();
        results.extend(exchange.results.drain(..));
        let answered = results.iter().filter(|finished| finished.consumed).count();
        let tasks = std::mem::take(&mut exchange.tasks);
        let (elements, others): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|task| matches!(task, Task::Accept(_)));
        exchange.tasks = others.into();
        let taken = if exchange.halted { 0 } else { handed.saturating_sub(elements.len() + answered) };
        exchange.recalled = taken > 0;
        drop(exchange);
        // Dropped outside the lock: what they hold may run code of the host.
        drop(elements);
        let rests = results.back().map_or(paused, |last| matches!(last.outcome, Ok(Step::Pause)));
        answered + usize::from(taken > 0 && !rests)
    }

    /// Goes on after a failure, with the `elements` that are still in hand.
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
        // Dropped outside the lock: what they hold may run code of the host.
        drop(old);
        if let Some(worker) = worker {
            worker.notify();
        }
    }

    /// No more work will come: the worker ends. What was delivered until now goes to `results`, what it still delivers is
    /// only counted.
    pub(crate) fn stop_after(&self, results: &mut VecDeque<TaskResult>) {
        let (worker, left) = {
            let mut exchange = self.lock();
            exchange.stopped = true;
            results.extend(exchange.results.drain(..));
            exchange.flow = None;
            self.changed.notify_all();
            (exchange.worker.take(), std::mem::take(&mut exchange.tasks))
        };
        // Dropped outside the lock: what they hold may run code of the host.
        drop(left);
        if let Some(worker) = worker {
            worker.notify();
        }
    }

    // The worker's side.

    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Whether the worker waits for the reactor, or has said its last word, and the reactor has nothing to fetch.
    pub fn is_idle(&self, has_ended: bool) -> bool {
        let exchange = self.lock();
        let waits = match exchange.waiting {
            _ if has_ended => return exchange.stopped || exchange.results.is_empty(),
            WaitReason::No => false,
            WaitReason::ForTasks => true,
            WaitReason::ForCredit => exchange.credit == 0,
        };
        let rests = exchange.ended || (waits && exchange.tasks.is_empty());
        exchange.stopped || (rests && exchange.results.is_empty())
    }

    /// Whether the reactor has results to fetch.
    pub fn has_results(&self) -> bool {
        let exchange = self.lock();
        !exchange.stopped && !exchange.results.is_empty()
    }

    /// All tasks that are there, at once. Empty: there are none now, and the worker will be notified.
    pub fn take(&self) -> Vec<Task> {
        let mut exchange = self.lock();
        let is_empty = exchange.tasks.is_empty() || exchange.halted;
        exchange.waiting = if is_empty { WaitReason::ForTasks } else { WaitReason::No };
        if is_empty { Vec::new() } else { exchange.tasks.drain(..).collect() }
    }

    /// Credit for making elements; 0: none now, and the worker will be notified.
    pub fn credit(&self) -> usize {
        let mut exchange = self.lock();
        exchange.waiting = if exchange.credit == 0 { WaitReason::ForCredit } else { WaitReason::No };
        exchange.credit
    }

    /// Blocks until there is a task or, when `for_credit`, credit. False when stopped or when the time is over.
    pub fn wait(&self, for_credit: bool, timeout: Duration) -> bool {
        let mut exchange = self.lock();
        exchange.waiting = if for_credit { WaitReason::ForCredit } else { WaitReason::ForTasks };
        let (exchange, _) = self
            .changed
            .wait_timeout_while(exchange, timeout, |exchange| {
                let has_tasks = !exchange.tasks.is_empty() && !exchange.halted;
                let has_credit = for_credit && exchange.credit > 0;
                !(exchange.stopped || has_tasks || has_credit)
            })
            .unwrap_or_else(PoisonError::into_inner);
        !exchange.stopped
    }

    /// Goes on after a pause. False when what was taken before it is not wanted any more.
    pub fn give_resumed(&self) -> bool {
        let resumed = TaskResult {
            consumed: false,
            made: Vec::new(),
            ports: Vec::new(),
            outcome: Ok(Step::Done),
            last: false,
            end: None,
        };
        self.deliver(resumed, true)
    }

    /// Delivers a result. False when nobody wants it any more, or wants no more of what was taken with it.
    pub fn give(&self, finished: TaskResult) -> bool {
        let hears_of_recall = finished.consumed;
        self.deliver(finished, hears_of_recall)
    }

    fn deliver(&self, finished: TaskResult, hears_of_recall: bool) -> bool {
        let (flow, wanted) = {
            let mut exchange = self.lock();
            if exchange.stopped {
                // Too late to be used, not to be counted.
                exchange.results.push_back(finished);
                return false;
            }
            let has_failed = finished.consumed && finished.outcome.is_err();
            exchange.halted |= has_failed;
            let recalled = hears_of_recall && std::mem::take(&mut exchange.recalled);
            let wanted = !recalled && !has_failed;
            exchange.spend(finished.used(), finished.outcome.is_err());
            exchange.ended |= finished.last;
            exchange.results.push_back(finished);
            (exchange.flow.clone(), wanted)
        };
        if let Some(flow) = flow {
            flow.notify();
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_exchange_wakes_the_worker_and_takes_nothing_more() {
        let offload = Offload::default();
        let flush = || Task::Flush(End::because("stop"));
        offload.hand_over([flush(), flush()], None);
        offload.stop_after(&mut VecDeque::new());
        assert!(offload.take().is_empty());
        assert!(!offload.wait(false, Duration::from_secs(60)));
        assert!(offload.is_stopped());
    }

    fn answer() -> TaskResult {
        TaskResult {
            consumed: true,
            made: vec![],
            ports: vec![],
            outcome: Ok(Step::Forward),
            last: false,
            end: None,
        }
    }

    fn element() -> Task {
        let made = Emission::text("a");
        Task::Accept(Element::made(made, 0, 0, 0))
    }

    #[test]
    fn what_was_never_taken_is_recalled_without_a_word() {
        let offload = Offload::default();
        offload.hand_over([element(), element()], None);
        assert_eq!(offload.recall(2, false, &mut VecDeque::new()), 0);
        assert!(offload.take().is_empty());
        offload.hand_over([element()], None);
        assert_eq!(offload.take().len(), 1);
        assert!(offload.give(answer()));
    }

    #[test]
    fn a_worker_hears_of_a_recall_with_its_next_answer() {
        let offload = Offload::default();
        offload.hand_over([element(), element(), element()], None);
        assert_eq!(offload.take().len(), 3);
        assert!(offload.give(answer()));
        let mut results = VecDeque::new();
        assert_eq!(offload.recall(3, false, &mut results), 2);
        assert_eq!(results.len(), 1);
        assert!(!offload.give(answer()));
        assert!(offload.give(answer()));
    }

    #[test]
    fn credit_is_used_up_by_what_is_made() {
        let offload = Offload::default();
        offload.hand_over([], Some(Credit { elements: 2, bytes: 100 }));
        let made = vec![Emission::text("a"), Emission::text("b")];
        offload.give(TaskResult {
            consumed: false,
            made,
            ports: vec![],
            outcome: Ok(Step::Done),
            last: false,
            end: None,
        });
        assert_eq!(offload.credit(), 0);
        // What was delivered and not fetched yet still uses what is granted.
        offload.hand_over([], Some(Credit { elements: 3, bytes: 100 }));
        assert_eq!(offload.credit(), 1);
        offload.hand_over([], Some(Credit { elements: 3, bytes: 2 }));
        assert_eq!(offload.credit(), 0);
    }
}
