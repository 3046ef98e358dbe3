//! What the reactor and a worker share about one offloaded stage: tasks, results and credit.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Notify, Task, TaskResult};

/// What an idle worker waits for.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason {
    #[default]
    No,
    ForTasks,
    ForCredit,
}

#[derive(Default)]
pub(super) struct Exchange {
    pub tasks: VecDeque<Task>,
    pub results: VecDeque<TaskResult>,
    /// How many more elements the component may emit.
    pub credit: usize,
    /// How many more bytes; the last element may exceed it.
    pub byte_credit: usize,
    /// How many settled elements the source has not been told about.
    pub settled: u64,
    /// How many results the worker has given.
    pub given: u64,
    pub waiting: WaitReason,
    pub stopped: bool,
    /// The worker has delivered its last result and takes no more tasks.
    pub ended: bool,
    /// The worker must drop the elements that it took and has not started; its next result tells it so.
    pub recalled: bool,
    /// A call has failed: the worker has dropped what it took, and gets nothing until the reactor has decided.
    pub halted: bool,
    pub worker: Option<Arc<dyn Notify>>,
    pub flow: Option<Arc<dyn Notify>>,
}

/// What a component may emit before the reactor grants more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Credit {
    pub elements: usize,
    pub bytes: usize,
}

impl TaskResult {
    /// Whether the worker must wait until the reactor has decided what follows.
    pub(crate) fn has_failed(&self) -> bool {
        self.consumed && self.outcome.is_err() && !self.followed
    }

    /// The credit that it used. A failure or an end uses one as well, or it could repeat for ever.
    pub(crate) fn used(&self) -> Credit {
        let elements = self.made.len().max(usize::from(!self.consumed));
        let bytes = self.made.iter().map(|emission| emission.len as usize).sum();
        Credit { elements, bytes }
    }
}

impl Exchange {
    pub fn grant(&mut self, credit: Credit) {
        self.credit = credit.elements;
        self.byte_credit = credit.bytes;
        for at in 0..self.results.len() {
            let (used, has_failed) = (self.results[at].used(), self.results[at].outcome.is_err());
            self.spend(used, has_failed);
        }
    }

    pub fn spend(&mut self, used: Credit, has_failed: bool) {
        self.credit = self.credit.saturating_sub(used.elements);
        self.byte_credit = self.byte_credit.saturating_sub(used.bytes);
        // The reactor decides what follows a failure: a retry may have to wait.
        if self.byte_credit == 0 || has_failed {
            self.credit = 0;
        }
    }
}
