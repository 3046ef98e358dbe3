//! Acknowledgements inside a flow: outputs carry the receipts of the elements that they were made from, and sources
//! are told, in order, how many of their elements are settled. A flow that tracks none runs nothing of this.

use torvyn_stream::{AckLog, Element, Emission, Receipt};

use crate::blueprint::Role;
use crate::core::Core;
use crate::edges::Edges;
use crate::node::{Node, Phase, Worker};
use crate::shared_state::Failure;
use crate::turn::verdict::send_untracked;

/// The emission with a receipt.
pub(super) fn tracked(emission: Emission, receipt: Option<Receipt>) -> Emission {
    match receipt {
        Some(receipt) => Emission { payload: emission.payload.tracked(receipt), ..emission },
        None => emission,
    }
}

/// Sends an output with a receipt: the one of its input, or a new one of a source.
pub(super) fn send_tracked(
    edges: &mut Edges,
    node: &mut Node,
    index: usize,
    emission: &mut Emission,
    receipt: Option<Receipt>,
    now_ns: u64,
) -> Result<(), Failure> {
    if node.spec.ports.is_empty() {
        return Ok(());
    }
    let receipt = receipt.or_else(|| node.acks.as_ref().and_then(AckLog::issue));
    send_untracked(edges, node, index, &mut tracked(emission.take(), receipt), now_ns)
}

impl Core {
    /// Sends what is in the outbox with the receipt of the call. `element` is its input.
    pub(super) fn send_outbox_tracked(
        &mut self,
        index: usize,
        element: Option<&Element>,
    ) -> Result<(), Failure> {
        let receipt = self.output_receipt(index, element);
        let node = &mut self.nodes[index];
        self.outbox.made.iter_mut().try_for_each(|emission| {
            send_tracked(&mut self.edges, node, index, emission, receipt.clone(), self.now_ns)
        })
    }

    /// The receipt for the outputs of a call. `element` is its input.
    fn output_receipt(&mut self, index: usize, element: Option<&Element>) -> Option<Receipt> {
        let node = &mut self.nodes[index];
        match node.role {
            Role::Source | Role::Sink => None,
            Role::Aggregator | Role::Filter => {
                let current = node.unfinished.current.as_deref().and_then(Element::receipt);
                if let Some((element, receipt)) =
                    element.and_then(|element| Some((element, element.receipt()?)))
                {
                    node.unfinished.fill().absorbed.get_or_insert_default().push(receipt, element.len);
                }
                let absorbed = self.take_absorbed(index);
                // The outputs of a generator are made before its element is absorbed.
                Receipt::group(absorbed.into_iter().chain(current).collect())
            }
            _ => {
                let in_flight = match &node.worker {
                    Worker::Offloaded(state) => state.in_flight.front(),
                    Worker::Inline(_) => None,
                };
                element.or(node.unfinished.current.as_deref()).or(in_flight)?.receipt()
            }
        }
    }

    /// The receipt for what a node has just emitted, if it has emitted something.
    fn take_absorbed(&mut self, index: usize) -> Option<Receipt> {
        let node = &mut self.nodes[index];
        let absorbed =
            node.unfinished.used()?.absorbed.as_deref_mut().filter(|absorbed| !absorbed.is_empty())?;
        let (known, held_bytes) = match &node.worker {
            Worker::Inline(stage) => (stage.held_elements(), stage.held_bytes()),
            Worker::Offloaded(state) => (state.held_elements, 0),
        };
        let has_output = !self.outbox.made.is_empty();
        if !has_output {
            // Without an output, an aggregator that does not count its elements still has all of them.
            if known.is_some() || (node.role == Role::Filter && held_bytes == 0) {
                absorbed.forget(known.unwrap_or(0));
            }
            return None;
        }
        // Text that a native stage still buffers belongs to its newest elements. The text of the oldest of them may be
        // in the output and in the buffer.
        let kept = known.unwrap_or_else(|| absorbed.newest_with(held_bytes));
        absorbed.take(kept)
    }

    /// Keeps the receipt of an element that an aggregator or a guard took without an output.
    pub(super) fn absorb_front(&mut self, index: usize, input: usize) {
        if !matches!(self.nodes[index].role, Role::Aggregator | Role::Filter) {
            return;
        }
        let Some(element) = self.edges.list[input].queue.front_mut() else { return };
        if let Some(receipt) = element.receipt() {
            let len = element.len;
            self.nodes[index].unfinished.fill().absorbed.get_or_insert_default().push(receipt, len);
        }
        self.take_absorbed(index);
    }

    /// Settles or abandons what a node still had inside when it ended.
    pub(crate) fn drop_absorbed(&mut self, index: usize, is_settled: bool) {
        let Some(unfinished) = self.nodes[index].unfinished.used() else { return };
        let absorbed = unfinished.absorbed.take().map_or_else(Vec::new, |mut absorbed| absorbed.take_all());
        if !is_settled {
            absorbed.iter().for_each(Receipt::abandon);
        }
    }

    /// Tells every source how many more of its elements are settled.
    pub(crate) fn deliver_acknowledgements(&mut self) {
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

    /// What a source has not been told about, at the end of the flow. An edge that comes from outside the process is
    /// told at once.
    pub(crate) fn take_acknowledgements(&mut self, index: usize) -> u64 {
        let node = &mut self.nodes[index];
        let settled = node.acks.as_ref().map_or(0, |acks| acks.take_settled());
        match &mut node.worker {
            Worker::Inline(stage) if node.spec.is_carrier => {
                stage.acknowledge(settled);
                0
            }
            Worker::Inline(_) => settled,
            Worker::Offloaded(state) => state.exchange.take_settled() + settled,
        }
    }
}
