//! What the worker of an offloaded stage does with the exchange: it takes tasks and gives results.

use std::sync::PoisonError;
use std::time::Duration;

use torvyn_stream::Step;

use crate::offload::exchange::WaitReason;
use crate::offload::{Offload, Task, TaskResult};

impl Offload {
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Whether the worker waits for the reactor or has ended, and the reactor has nothing to collect.
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

    /// Whether the reactor has results to collect.
    pub fn has_results(&self) -> bool {
        let exchange = self.lock();
        !exchange.stopped && !exchange.results.is_empty()
    }

    /// All tasks. Empty: there are none now, and the worker will be notified.
    pub fn take(&self) -> Vec<Task> {
        let mut exchange = self.lock();
        let is_empty = exchange.tasks.is_empty() || exchange.halted;
        exchange.waiting = if is_empty { WaitReason::ForTasks } else { WaitReason::No };
        if is_empty { Vec::new() } else { exchange.tasks.drain(..).collect() }
    }

    /// How many more elements of a source are settled since the last call.
    pub fn take_settled(&self) -> u64 {
        std::mem::take(&mut self.lock().settled)
    }

    /// Whether a source is still to be told that elements are settled.
    pub(crate) fn has_acknowledgements(&self) -> bool {
        self.lock().settled > 0
    }

    /// Credit for emitting elements. 0: none now, and the worker will be notified.
    pub fn credit(&self) -> usize {
        let mut exchange = self.lock();
        exchange.waiting = if exchange.credit == 0 { WaitReason::ForCredit } else { WaitReason::No };
        exchange.credit
    }

    /// Blocks until there is a task or, with `for_credit`, credit. False when stopped or timed out.
    pub fn wait(&self, for_credit: bool, timeout: Duration) -> bool {
        let mut exchange = self.lock();
        let reason = if for_credit { WaitReason::ForCredit } else { WaitReason::ForTasks };
        exchange.waiting = reason;
        let (exchange, _) = self
            .changed
            .wait_timeout_while(exchange, timeout, |exchange| {
                let has_tasks = !exchange.tasks.is_empty() && !exchange.halted;
                let has_credit = for_credit && exchange.credit > 0;
                let goes_on = !(exchange.stopped || has_tasks || has_credit || exchange.settled > 0);
                if goes_on {
                    // The credit that woke it may have been withdrawn.
                    exchange.waiting = reason;
                }
                goes_on
            })
            .unwrap_or_else(PoisonError::into_inner);
        !exchange.stopped
    }

    /// Continues after a pause. False when the elements taken before it were recalled.
    pub fn give_resumed(&self) -> bool {
        let resumed = TaskResult {
            consumed: false,
            made: Vec::new(),
            ports: Vec::new(),
            outcome: Ok(Step::Done),
            last: false,
            end: None,
            followed: false,
            held_elements: None,
        };
        self.deliver(resumed, true)
    }

    /// How many results the worker has given so far.
    pub fn given(&self) -> u64 {
        self.lock().given
    }

    /// Delivers a result. False when the flow has stopped, or has recalled the elements taken with it.
    pub fn give(&self, finished: TaskResult) -> bool {
        let hears_of_recall = finished.consumed;
        self.deliver(finished, hears_of_recall)
    }

    fn deliver(&self, finished: TaskResult, hears_of_recall: bool) -> bool {
        let (flow, wanted) = {
            let mut exchange = self.lock();
            if exchange.stopped {
                // Too late to be used, but it is counted.
                exchange.results.push_back(finished);
                return false;
            }
            let has_failed = finished.has_failed();
            exchange.given += 1;
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

    /// Delivers the results of one call, at least one. False as for `give`.
    pub fn give_batch(&self, results: Vec<TaskResult>) -> bool {
        let flow = {
            let mut exchange = self.lock();
            if exchange.stopped {
                exchange.results.extend(results);
                return false;
            }
            exchange.given += results.len() as u64;
            for finished in results {
                exchange.halted |= finished.has_failed();
                exchange.spend(finished.used(), finished.outcome.is_err());
                exchange.results.push_back(finished);
            }
            exchange.recalled = false;
            exchange.flow.clone()
        };
        if let Some(flow) = flow {
            flow.notify();
        }
        true
    }
}
