//! Failures: a flow fails in stream order, or at once when its deadline passes or the reactor panics.

use torvyn_stream::{End, ErrorKind};

use crate::core::Core;
use crate::ends;
use crate::node::Phase;
use crate::shared_state::{Failure, FailureKind, State};

impl Core {
    /// Fails the flow: at once, or when everything before the failure has reached the sinks. True when it is over.
    pub(crate) fn fail(&mut self, failure: Failure) -> bool {
        let failure = self.blame_holder(failure);
        let interrupted = failure.error.kind == ErrorKind::Interrupted;
        let in_order = !matches!(failure.kind, FailureKind::DeadlineExceeded | FailureKind::Panic);
        let node = failure.node.or_else(|| {
            let edge = &self.edges.list[failure.edge?];
            edge.source.node()
        });
        // Later failures are counted; the first one is reported.
        self.edges.shared.outcome().failure.get_or_insert_with(|| Box::new(failure));
        if interrupted {
            self.abandon(State::Cancelled, End::because("cancelled"));
            return true;
        }
        match node {
            Some(node) if in_order && !self.edges.shared.state().is_over() => {
                self.fail_in_order(node);
                false
            }
            _ => {
                self.abandon(State::Failed, End::because("error"));
                true
            }
        }
    }

    /// Ends the stream at the failed node and stops the sources. What the node sent or held before it failed continues
    /// to the sinks, within the drain timeout; what waits in front of it stays unread.
    fn fail_in_order(&mut self, index: usize) {
        self.failing = true;
        self.drain_until_ns = self.now_ns.saturating_add(self.drain_timeout_ns);
        self.outbox.made.clear();
        self.outbox.ports.clear();
        if self.nodes[index].phase != Phase::Finished {
            // A full queue that fails has counted what it did not accept.
            let _ = self.let_held_go(index);
            self.close_worker(index);
            let unfinished = self.nodes[index].unfinished.used();
            let sent = unfinished
                .map(|unfinished| std::mem::take(&mut unfinished.backlog))
                .filter(|sent| !sent.is_empty());
            self.empty_hands(index);
            if let Some(sent) = sent {
                self.nodes[index].unfinished.fill().backlog = sent;
            }
            self.finish_when_empty(index, Some(ends::because("error")));
            if self.nodes[index].phase != Phase::Finished {
                self.stop_listening(index);
            }
        }
        self.stop_sources();
    }

    /// Elements are charged to the node that emitted them. If a filter holds most of what that node has in use, the
    /// filter is at fault.
    fn blame_holder(&self, mut failure: Failure) -> Failure {
        let (FailureKind::MemoryExceeded, Some(maker)) = (failure.kind, failure.node) else { return failure };
        let budget_bytes = self.nodes[maker].spec.budget_bytes;
        for (index, node) in self.nodes.iter().enumerate() {
            let of_maker = node.unfinished.held.iter().filter(|element| element.owner() == maker);
            let held_bytes: u64 = of_maker.map(|element| u64::from(element.len)).sum();
            if index != maker && held_bytes > budget_bytes / 2 {
                let count = node.unfinished.held.len();
                failure.node = Some(index);
                failure.method = "hold";
                failure.error.message = format!(
                    "it holds {count} elements with {held_bytes} bytes, and the node that made them may have \
                     {budget_bytes} in use"
                );
            }
        }
        failure
    }
}
