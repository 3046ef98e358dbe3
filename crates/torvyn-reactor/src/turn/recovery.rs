//! Error policies: retries, skipped elements and dead letters.

use torvyn_stream::{Element, StageError};

use crate::blueprint::Recovery;
use crate::core::Core;
use crate::node::Retry;
use crate::shared_state::{Failure, FailureKind};
use crate::turn::verdict::method_name;

impl Core {
    /// Applies the node's error policy to a failed call.
    pub(super) fn recover(
        &mut self,
        index: usize,
        element: Option<Element>,
        error: StageError,
        attempt: u32,
    ) -> Result<(), Failure> {
        self.outbox.made.clear();
        self.outbox.ports.clear();
        self.edges.shared.nodes[index].rare.count().errors.add(1);
        let (element, error) = match self.nodes[index].unfinished.trial {
            None => (element, error),
            Some(_) => match self.judge_trial(index, element, error, attempt) {
                Some(failed) => failed,
                None => return Ok(()),
            },
        };
        let counters = &self.edges.shared.nodes[index];
        let node = &mut self.nodes[index];
        if error.may_be_retried() && attempt < node.spec.retries {
            counters.rare.count().retried.add(1);
            let at_ns = self.now_ns.saturating_add(self.jitter.pause_ns(node.spec.backoff, attempt));
            node.unfinished.fill().retry = Some(Box::new(Retry { element, attempt: attempt + 1, at_ns }));
            return Ok(());
        }
        if error.stops_the_flow() || node.spec.recovery == Recovery::FailFast {
            let sequence = element.as_ref().map(|element| element.sequence);
            if let Some(element) = element {
                counters.rare.count().failed.add(1);
                self.edges.release_unread(element);
            }
            return Err(Failure {
                kind: FailureKind::Component,
                node: Some(index),
                edge: None,
                sequence,
                method: method_name(node.role),
                error,
            });
        }
        let errors = counters.rare.read(|rare| &rare.errors);
        // Reported at 1, 2, 4, 8...: enough to know why, without flooding the log.
        if errors.is_power_of_two()
            && let Some(tell) = &self.on_error
        {
            tell(index, &error, element.as_ref().map(|element| element.sequence), errors);
        }
        match (element, node.spec.recovery) {
            (Some(mut element), Recovery::DeadLetter) => {
                counters.rare.count().dead_lettered.add(1);
                if let Some(annotate) = self.annotate {
                    annotate(&mut element, &error);
                }
                let port = (node.spec.ports.len() - 1) as u16;
                self.edges.send_uncounted(node, port, element)
            }
            (element, _) => {
                if let Some(element) = element {
                    counters.rare.count().failed.add(1);
                    self.edges.release(element);
                }
                Ok(())
            }
        }
    }
}
