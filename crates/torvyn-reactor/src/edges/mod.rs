//! The edges of a flow, and the only way that elements move along them. Every allocation and release is accounted for.

mod run;
mod send;

use std::sync::Arc;

use torvyn_stream::{Element, End, ErrorKind, Queue, StageError};

use crate::blueprint::{EdgeSpec, Role};
use crate::node::{Node, Worker};
use crate::shared_state::{Failure, FailureKind, SharedState};

/// What happens to elements that are sent to an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    All,
    /// During an interrupt: elements marked `keep` enter, the others are dropped.
    Kept,
    /// The consumer has stopped reading: elements stay unread.
    Nothing,
}

pub struct Edge {
    pub queue: Queue,
    pub source: EdgeEnd,
    pub target: EdgeEnd,
    /// The position of its input among those of its target.
    pub input: u16,
    /// How its stream ended, once no more elements will be sent.
    pub closed: Option<Arc<End>>,
    pub accepts: Accepts,
}

/// The node at an end of an edge, or the caller. An `Option` would take twice the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeEnd(u16);

impl EdgeEnd {
    pub fn of(node: Option<usize>) -> Self {
        Self(node.map_or(u16::MAX, |node| node as u16))
    }

    pub fn node(self) -> Option<usize> {
        (self.0 != u16::MAX).then_some(usize::from(self.0))
    }
}

pub struct Edges {
    pub list: Vec<Edge>,
    /// Whether a source asks for acknowledgements.
    pub tracks: bool,
    pub shared: Arc<SharedState>,
}

impl Edge {
    pub fn new(spec: &EdgeSpec) -> Self {
        Self {
            queue: Queue::new(spec.depth, spec.bytes, spec.policy, spec.low_watermark),
            source: EdgeEnd::of(spec.source.map(|(node, _)| node)),
            target: EdgeEnd::of(spec.target),
            input: spec.input,
            closed: None,
            accepts: Accepts::All,
        }
    }

    #[inline]
    pub fn is_dead(&self) -> bool {
        self.accepts == Accepts::Nothing
    }
}

impl Edges {
    /// How many elements `node` can certainly emit now.
    #[inline]
    pub fn free_slots(&self, node: &Node) -> usize {
        if node.unfinished.has_backlog() {
            return 0;
        }
        // A router's ports are not known before the call: what does not fit waits in its backlog.
        if node.role == Role::Router {
            return usize::MAX;
        }
        if let Some(only) = node.only_output.edge() {
            let edge = &self.list[only];
            return if edge.is_dead() { usize::MAX } else { edge.queue.free_slots() };
        }
        if node.spec.ports.is_empty() {
            return usize::MAX;
        }
        let edges = node.spec.ports[0].iter().map(|&edge| &self.list[usize::from(edge)]);
        edges.filter(|edge| !edge.is_dead()).map(|edge| edge.queue.free_slots()).min().unwrap_or(usize::MAX)
    }

    /// How many bytes the node can emit before a blocking queue is full.
    pub fn free_bytes(&self, node: &Node) -> usize {
        if node.role == Role::Router {
            return usize::MAX;
        }
        if node.spec.ports.is_empty() {
            return usize::MAX;
        }
        let edges = node.spec.ports[0].iter().map(|&edge| &self.list[usize::from(edge)]);
        edges.filter(|edge| !edge.is_dead()).map(|edge| edge.queue.free_bytes()).min().unwrap_or(usize::MAX)
    }

    pub fn is_pressured(&self, node: &Node) -> bool {
        node.spec.ports.iter().flatten().any(|&edge| {
            let edge = &self.list[usize::from(edge)];
            !edge.is_dead() && edge.queue.is_pressured()
        })
    }

    /// Releases an element at the end of its life in this flow.
    #[inline]
    pub fn release(&self, element: Element) {
        if element.payload.is_last() {
            self.shared.nodes[element.owner()].ledger.release(u64::from(element.len));
        }
    }

    /// Releases an element that its consumer has not finished: its source is never told that it is settled.
    pub fn release_unread(&self, element: Element) {
        if let Some(receipt) = element.payload.receipt() {
            receipt.abandon();
        }
        self.release(element);
    }

    /// Drops the elements in front of a node that have waited for too long, and tells the sources they came from.
    /// Returns how many.
    #[cold]
    pub fn drop_stale(&mut self, nodes: &mut [Node], index: usize, now_ns: u64) -> usize {
        let mut count = 0;
        for input in 0..nodes[index].spec.max_ages_ns.len() {
            let spec = &nodes[index].spec;
            let (edge, max_age_ns) = (usize::from(spec.inputs[input]), spec.max_ages_ns[input]);
            let before_ns = if max_age_ns > 0 { now_ns.saturating_sub(max_age_ns) } else { 0 };
            let Edge { queue, source, .. } = &mut self.list[edge];
            let source = source.node();
            let gone: Vec<_> = std::iter::from_fn(|| queue.drop_older(before_ns)).collect();
            count += gone.len();
            for element in gone {
                // Before its release, which may settle it.
                if let Some(Worker::Inline(stage)) = source.map(|source| &mut nodes[source].worker) {
                    stage.note_expired(element.sequence);
                }
                self.release(element);
            }
        }
        count
    }

    /// Releases the first element of `input`, which has been consumed.
    #[inline(always)]
    pub fn release_front(&mut self, input: usize) {
        let queue = &mut self.list[input].queue;
        if let Some(element) = queue.front_mut()
            && element.payload.is_last()
        {
            let ledger = &self.shared.nodes[element.owner()].ledger;
            ledger.release(u64::from(element.len));
        }
        queue.drop_front();
    }

    /// Passes the first element of `input` on through port 0 if a plain move suffices. False if it does not.
    #[inline(always)]
    pub fn pass_front(&mut self, node: &Node, index: usize, input: usize) -> bool {
        let Some(only) = node.only_output.edge() else { return false };
        let Ok([from, to]) = self.list.get_disjoint_mut([input, only]) else {
            return false;
        };
        if to.accepts != Accepts::All
            || node.unfinished.has_backlog()
            || !from.queue.move_front(&mut to.queue)
        {
            return false;
        }
        let counters = &self.shared.nodes[index];
        counters.passed.add(1);
        counters.emitted.add(1);
        true
    }

    /// The next input to take an element from, fairly among those that have one.
    #[inline]
    pub fn next_input(&self, node: &mut Node) -> Option<usize> {
        if let Some(only) = node.only_input.edge() {
            return (!self.list[only].queue.is_empty()).then_some(only);
        }
        let count = node.spec.inputs.len();
        for step in 0..count {
            let at = (usize::from(node.cursor) + step) % count;
            let index = usize::from(node.spec.inputs[at]);
            if !self.list[index].queue.is_empty() {
                node.cursor = ((at + 1) % count) as u16;
                return Some(index);
            }
        }
        None
    }

    #[inline]
    pub fn has_input(&self, node: &Node) -> bool {
        node.spec.inputs.iter().any(|&edge| !self.list[usize::from(edge)].queue.is_empty())
    }

    /// Publishes this turn's counters.
    pub fn publish(&self) {
        for (edge, counters) in self.list.iter().zip(self.shared.edges.iter()) {
            edge.queue.publish(counters);
        }
    }

    /// How the node's input ended, once all of its inputs have.
    pub fn input_end(&self, node: &Node) -> Option<&Arc<End>> {
        let mut end: Option<&Arc<End>> = None;
        for &edge in &node.spec.inputs {
            let edge = &self.list[usize::from(edge)];
            let closed = edge.closed.as_ref()?;
            if !edge.queue.is_empty() {
                return None;
            }
            // Of several inputs, the first one that did not end normally counts.
            if end.is_none_or(|seen| seen.finish_reason == "stop" && seen.object.is_none()) {
                end = Some(closed);
            }
        }
        end
    }
}

#[cold]
pub fn over_budget(index: usize, node: &Node, used: u64, method: &'static str) -> Failure {
    let message = format!("{used} bytes in use, {} allowed", node.spec.budget_bytes);
    Failure {
        kind: FailureKind::MemoryExceeded,
        node: Some(index),
        edge: None,
        sequence: None,
        method,
        error: StageError::new(ErrorKind::Fatal, message),
    }
}

#[cfg(test)]
mod tests;
