//! Checkpoints of segments: sources are held until everything that they emitted has come to rest, then it is saved.

use torvyn_stream::Call;

use crate::blueprint::Role;
use crate::checkpoints::Rest;
use crate::core::Core;
use crate::node::{Phase, Worker};
use crate::shared_state::{Failure, FailureKind};

/// How often a segment that is to be saved is looked at.
const POLL_NS: u64 = 2_000_000;

impl Core {
    /// Whether a source must wait because its segment is being saved.
    #[inline]
    pub(crate) fn is_held_for_checkpoint(&self, index: usize) -> bool {
        self.checkpoint
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.requests.is_held(checkpoint.segment_of[index]))
    }

    /// Whether the states of its segment are saved and not durable yet: until then nothing may change them.
    #[inline]
    pub(crate) fn is_cut(&self, index: usize) -> bool {
        self.checkpoint
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.requests.is_cut(checkpoint.segment_of[index]))
    }

    /// A segment may come to rest without a wake-up: an offloaded source tells nobody that it waits.
    pub(super) fn checkpoint_due(&self) -> Option<u64> {
        let is_wanted = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_wanted());
        is_wanted.then(|| self.now_ns.saturating_add(POLL_NS))
    }

    /// Saves the segments that are wanted and at rest. True when one was.
    pub(super) fn cut(&mut self) -> Result<bool, Failure> {
        let Some(checkpoint) = self.checkpoint.take() else { return Ok(false) };
        let mut result = Ok(false);
        for segment in 0..checkpoint.requests.len() {
            if !checkpoint.requests.is_wanted(segment) || !self.is_at_rest(&checkpoint.segment_of, segment) {
                continue;
            }
            let saved = self.snapshot(&checkpoint.segment_of, segment).and_then(|states| {
                checkpoint.requests.note_cut(segment);
                let finished = self.finished_nodes(&checkpoint.segment_of, segment);
                (checkpoint.on_cut)(Rest { segment, states, finished }).map_err(|error| Failure {
                    kind: FailureKind::Component,
                    node: checkpoint.segment_of.iter().position(|&of| of == segment),
                    edge: None,
                    sequence: None,
                    method: "snapshot",
                    error,
                })
            });
            match saved {
                Ok(()) => result = result.map(|_| true),
                Err(failure) => result = Err(failure),
            }
        }
        self.checkpoint = Some(checkpoint);
        result
    }

    /// Whether no element is on its way in the segment: none waits in a queue or in the hands of a node.
    fn is_at_rest(&self, segment_of: &[usize], segment: usize) -> bool {
        self.nodes.iter().zip(segment_of).all(|(node, &of)| {
            let has_input = match (&node.worker, node.role) {
                // A source that may be returning an element has a position that does not fit yet.
                (Worker::Offloaded(state), Role::Source) => {
                    node.acks.is_none() && !state.exchange.is_idle(false)
                }
                (_, Role::Source) => false,
                _ => self.edges.has_input(node),
            };
            let is_idle = !node.is_busy() && !node.unfinished.holds_elements() && !has_input;
            of != segment || node.phase == Phase::Finished || is_idle
        })
    }

    fn finished_nodes(&self, segment_of: &[usize], segment: usize) -> Vec<usize> {
        let is_finished = |&at: &usize| segment_of[at] == segment && self.nodes[at].phase == Phase::Finished;
        (0..self.nodes.len()).filter(is_finished).collect()
    }

    /// The states of the segment's native stages.
    fn snapshot(&mut self, segment_of: &[usize], segment: usize) -> Result<Vec<(usize, Vec<u8>)>, Failure> {
        let mut states = Vec::new();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let Worker::Inline(stage) = &mut node.worker else { continue };
            if segment_of[index] != segment || node.phase == Phase::Finished {
                continue;
            }
            let ledger = &self.edges.shared.nodes[index].ledger;
            match stage.snapshot(Call { ledger, now_ns: self.now_ns }) {
                Ok(Some(state)) => states.push((index, state)),
                Ok(None) => {}
                Err(error) => {
                    let (kind, node) = (FailureKind::Component, Some(index));
                    return Err(Failure {
                        kind,
                        node,
                        edge: None,
                        sequence: None,
                        method: "snapshot",
                        error,
                    });
                }
            }
        }
        Ok(states)
    }
}
