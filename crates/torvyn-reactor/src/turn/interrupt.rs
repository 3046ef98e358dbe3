//! Interrupts: waiting elements downstream are dropped and counted, unless marked `keep`; the flow continues.

use torvyn_stream::Element;

use crate::core::Core;
use crate::edges::Accepts;
use crate::node::Worker;
use crate::shared_state::Failure;

impl Core {
    /// Drops the waiting elements after a node, in the node and further downstream. Those marked `keep` stay.
    pub(crate) fn interrupt_after(&mut self, index: usize) -> Result<(), Failure> {
        let mut reached = vec![false; self.nodes.len()];
        reached[index] = true;
        // Sources come first: one pass finds everything downstream.
        for (at, node) in self.nodes.iter().enumerate() {
            if reached[at] {
                for &edge in node.spec.ports.iter().flatten() {
                    if let Some(target) = self.edges.list[usize::from(edge)].target.node() {
                        reached[target] = true;
                    }
                }
            }
        }
        self.interrupt(|node| node.is_some_and(|node| reached[node]))
    }

    /// Drops the elements on the edges from the nodes in `meant`, and inside these nodes, unless marked `keep`.
    pub(crate) fn interrupt(&mut self, meant: impl Fn(Option<usize>) -> bool) -> Result<(), Failure> {
        let mut gone = Vec::new();
        for edge in &mut self.edges.list {
            if meant(edge.source.node()) {
                gone.extend(edge.queue.interrupt());
            }
        }
        gone.into_iter().for_each(|element| self.edges.release(element));
        let mut result = Ok(());
        for index in 0..self.nodes.len() {
            if meant(Some(index)) {
                let interrupted = self.interrupt_hands(index);
                result = result.and(interrupted);
            }
        }
        result
    }

    fn interrupt_hands(&mut self, index: usize) -> Result<(), Failure> {
        self.settle_answers(index, Accepts::Kept)?;
        let node = &mut self.nodes[index];
        let (mut gone, mut held_bytes) = (Vec::new(), 0);
        if let Some(unfinished) = node.unfinished.used() {
            let (keep, drop): (Vec<_>, Vec<_>) =
                unfinished.backlog.drain(..).partition(|(_, element)| element.keep());
            unfinished.backlog = keep.into();
            for (edge, element) in drop {
                self.edges.list[usize::from(edge)].queue.note_dropped();
                self.edges.release(element);
            }
            let (keep, drop): (Vec<_>, Vec<_>) = unfinished.held.drain(..).partition(Element::keep);
            held_bytes = keep.iter().map(|element| u64::from(element.len)).sum();
            unfinished.held = keep.into();
            gone = drop;
            if unfinished
                .retry
                .as_ref()
                .and_then(|retry| retry.element.as_ref())
                .is_some_and(|one| !one.keep())
            {
                gone.extend(unfinished.retry.take().and_then(|retry| retry.element));
            }
            gone.extend(unfinished.current.take().map(|current| *current));
            unfinished.given_up += gone.len() as u64;
        }
        self.edges.shared.nodes[index].ledger.hold(held_bytes);
        gone.into_iter().for_each(|element| self.edges.release(element));
        match &mut node.worker {
            Worker::Inline(stage) => {
                node.more = false;
                stage.interrupt();
                Ok(())
            }
            Worker::Offloaded(_) => self.recall(index),
        }
    }
}
