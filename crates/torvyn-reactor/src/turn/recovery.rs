//! Error policies: retries, skipped elements, dead letters, and elements that the host stores.

use torvyn_stream::{Element, StageError};

use crate::blueprint::{Recovery, Refused};
use crate::core::Core;
use crate::node::Retry;
use crate::shared_state::{Failure, FailureKind};
use crate::turn::batch::LAST;
use crate::turn::verdict::method_name;

/// When an element that could not be stored is given to its node again.
const STORE_RETRY_NS: u64 = 1_000_000_000;

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
        let mut recovery = node.spec.recovery_from(&error, element.is_some());
        if recovery == Recovery::Store {
            let (ledger, now_ns) = (&counters.ledger, self.now_ns);
            let refused = Refused { node: index, element: element.as_ref(), error: &error, ledger, now_ns };
            let is_stored = self.store_refused.as_ref().is_some_and(|store| store(refused));
            match element {
                Some(element) => return self.conclude_refused(index, element, is_stored, attempt),
                None if is_stored => return Ok(()),
                // A source that does not say what it refused may refuse it for ever.
                None => recovery = Recovery::FailFast,
            }
        }
        if recovery == Recovery::FailFast {
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
        match (element, recovery) {
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

    /// An element whose node refused it is settled when it is stored. Until then it waits in front of the node, which
    /// is called for it again: nothing overtakes it.
    fn conclude_refused(
        &mut self,
        index: usize,
        element: Element,
        is_stored: bool,
        attempt: u32,
    ) -> Result<(), Failure> {
        let counters = &self.edges.shared.nodes[index];
        if is_stored {
            counters.rare.count().dead_lettered.add(1);
            self.edges.release(element);
        } else if attempt == LAST {
            // Nothing is called again at the end of a flow: the next run gets the element.
            counters.rare.count().failed.add(1);
            self.edges.release_unread(element);
        } else {
            counters.rare.count().retried.add(1);
            let at_ns = self.now_ns.saturating_add(STORE_RETRY_NS);
            self.nodes[index].unfinished.fill().retry =
                Some(Box::new(Retry { element: Some(element), attempt, at_ns }));
        }
        Ok(())
    }
}
