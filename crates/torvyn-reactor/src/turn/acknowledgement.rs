//! Acknowledgements inside a flow: outputs carry the receipts of the elements that they were made from, and sources
//! are told, in order, how many of their elements are settled. A flow that tracks none runs nothing of this.

use torvyn_stream::{Element, Emission, Receipt};

use crate::blueprint::Role;
use crate::core::Core;
use crate::node::{Phase, Worker};

/// The emission with a receipt.
pub(super) fn tracked(emission: Emission, receipt: Option<Receipt>) -> Emission {
    match receipt {
        Some(receipt) => Emission { payload: emission.payload.tracked(receipt), ..emission },
        None => emission,
    }
}

impl Core {
    /// The receipt for the outputs of a call. `element` is its input.
    pub(super) fn output_receipt(&mut self, index: usize, element: Option<&Element>) -> Option<Receipt> {
        let node = &mut self.nodes[index];
        match node.role {
            Role::Source | Role::Sink => None,
            Role::Aggregator | Role::Filter => {
                if let Some((element, receipt)) =
                    element.and_then(|element| Some((element, element.receipt()?)))
                {
                    node.absorbed.push_back((receipt, element.len));
                }
                self.take_absorbed(index)
            }
            _ => {
                let in_flight = match &node.worker {
                    Worker::Offloaded(state) => state.in_flight.front(),
                    Worker::Inline(_) => None,
                };
                element.or(node.current.as_ref()).or(in_flight)?.receipt()
            }
        }
    }

    /// The receipts of what a node has just emitted. Text that a native stage still buffers belongs to its newest
    /// elements; a component that reports no buffered bytes has emitted everything it took.
    fn take_absorbed(&mut self, index: usize) -> Option<Receipt> {
        let node = &mut self.nodes[index];
        let held_bytes = match &node.worker {
            Worker::Inline(stage) => stage.held_bytes(),
            Worker::Offloaded(_) => 0,
        };
        if self.outbox.made.is_empty() {
            if node.role == Role::Filter && held_bytes == 0 {
                node.absorbed.clear();
            }
            return None;
        }
        let known = match &node.worker {
            Worker::Inline(stage) => stage.held_elements(),
            Worker::Offloaded(_) => None,
        };
        let (mut kept, mut kept_bytes) = (known.unwrap_or(0), 0);
        while known.is_none() && kept < node.absorbed.len() && kept_bytes < held_bytes {
            kept_bytes += node.absorbed[node.absorbed.len() - 1 - kept].1 as usize;
            kept += 1;
        }
        let emitted = node.absorbed.len().saturating_sub(kept);
        // The text of the oldest kept element may be in the output and in the buffer.
        Receipt::group(node.absorbed.drain(..emitted).map(|(receipt, _)| receipt).collect())
    }

    /// Keeps the receipt of an element that an aggregator or a guard took without an output.
    pub(super) fn absorb_front(&mut self, index: usize, input: usize) {
        if !matches!(self.nodes[index].role, Role::Aggregator | Role::Filter) {
            return;
        }
        let Some(element) = self.edges.list[input].queue.front_mut() else { return };
        if let Some(receipt) = element.receipt() {
            let len = element.len;
            self.nodes[index].absorbed.push_back((receipt, len));
        }
        self.take_absorbed(index);
    }

    /// Settles or abandons what a node still had inside when it ended.
    pub(super) fn drop_absorbed(&mut self, index: usize, is_settled: bool) {
        let absorbed = std::mem::take(&mut self.nodes[index].absorbed);
        if !is_settled {
            absorbed.iter().for_each(|(receipt, _)| receipt.abandon());
        }
    }

    /// Tells every source how many more of its elements are settled.
    pub(super) fn deliver_acknowledgements(&mut self) {
        for node in &mut self.nodes {
            let Some(acks) = &node.acks else { continue };
            match &mut node.worker {
                Worker::Inline(stage) => match acks.take_settled() {
                    0 => {}
                    count => stage.acknowledge(count),
                },
                // The worker of a finished source takes no more tasks: the host delivers the rest.
                Worker::Offloaded(_) if node.phase == Phase::Finished => {}
                Worker::Offloaded(state) => match acks.take_settled() {
                    0 => {}
                    count => state.exchange.acknowledge(count),
                },
            }
        }
    }

    /// What a source has not been told about, at the end of the flow.
    pub(crate) fn take_acknowledgements(&mut self, index: usize) -> u64 {
        let node = &self.nodes[index];
        let waiting = match &node.worker {
            Worker::Offloaded(state) => state.exchange.take_settled(),
            Worker::Inline(_) => 0,
        };
        waiting + node.acks.as_ref().map_or(0, |acks| acks.take_settled())
    }
}
