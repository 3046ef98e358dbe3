//! Exchanges parts of the graph of a running flow: nodes leave, others join, and those that stay get new edges.
//!
//! The segments concerned are at rest, so no element is on its way in them. The others do not notice.

use torvyn_stream::Queue;

use crate::blueprint::EdgeSpec;
use crate::core::Core;
use crate::edges::{Accepts, Edge, EdgeEnd};
use crate::native_stages::Null;
use crate::node::{Node, Phase, Worker};
use crate::shared_state::State;
use crate::swap::{Refusal, Replacement, is_plain};

/// An edge of the new graph. Numbers that no edge has yet are new edges, in order.
pub struct NumberedEdge {
    pub number: u16,
    pub spec: EdgeSpec,
}

/// Called inside the turn, with the stages of the nodes that have left.
pub type GraphDone = Box<dyn FnOnce(Result<Vec<Replacement>, Refusal>) + Send>;

/// Nodes and edges keep their numbers; new ones get those that follow.
pub struct GraphChange {
    /// The nodes that join.
    pub joining: Vec<Node>,
    /// The nodes that leave.
    pub leaving: Vec<usize>,
    /// Those of them whose states were handed over, or are to be dropped.
    pub saved: Vec<usize>,
    /// Nodes that leave, and those that go on in their places.
    pub successors: Vec<(usize, usize)>,
    /// The nodes of these segments that stay.
    pub staying: Vec<usize>,
    /// Those of them whose elements are settled by checkpoints.
    pub by_checkpoint: Vec<usize>,
    /// All edges of these segments.
    pub edges: Vec<NumberedEdge>,
    /// All nodes of the flow that run from now on, from the sources down.
    pub order: Box<[u16]>,
    /// The segment of every node, and how many segments there are.
    pub segment_of: Vec<usize>,
    pub segments: usize,
    /// Why it has not been carried out yet.
    pub obstacle: &'static str,
    pub done: GraphDone,
}

impl GraphChange {
    /// Closes the stages that were to join, or stops their workers.
    pub fn release(self) {
        release(self.joining);
    }
}

fn release(nodes: Vec<Node>) {
    for mut node in nodes {
        let worker = std::mem::replace(&mut node.worker, Worker::Inline(Box::new(Null)));
        node.replacement(worker).release();
    }
}

impl std::fmt::Debug for GraphChange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("GraphChange").field("leaving", &self.leaving).finish_non_exhaustive()
    }
}

impl Core {
    /// Carries out a change of the graph. While something stands in its way it waits until it is requested again.
    #[cold]
    pub(crate) fn change_graph(&mut self, mut change: Box<GraphChange>) {
        if self.edges.tracks {
            self.deliver_acknowledgements();
        }
        match self.find_obstacle(&change) {
            Some(Refusal::Busy(what)) => {
                change.obstacle = what;
                self.edges.shared.keep_graph_change(change);
            }
            Some(refusal) => {
                let GraphChange { joining, done, .. } = *change;
                release(joining);
                done(Err(refusal));
            }
            None => self.exchange_graph(*change),
        }
    }

    fn find_obstacle(&self, change: &GraphChange) -> Option<Refusal> {
        if self.edges.shared.state() != State::Running {
            return Some(Refusal::Ended);
        }
        let is_ended = |&&index: &&usize| self.nodes[index].phase != Phase::Running;
        if change.leaving.iter().chain(&change.staying).any(|index| is_ended(&index)) {
            return Some(Refusal::Ended);
        }
        let is_moving = |&index: &usize| !self.is_cut(index) || self.edges.has_input(&self.nodes[index]);
        if change.leaving.iter().chain(&change.staying).any(is_moving) {
            return Some(Refusal::Busy("its segment is not at rest"));
        }
        let is_owed = |&&index: &&usize| {
            let acks = self.nodes[index].acks.as_ref().filter(|acks| acks.outstanding() > 0);
            acks.is_some_and(|acks| acks.is_settled_by_checkpoint() != change.by_checkpoint.contains(&index))
        };
        if change.staying.iter().any(|index| is_owed(&index)) {
            return Some(Refusal::Busy("elements that it has sent are not settled"));
        }
        let reason = change.leaving.iter().find_map(|&index| self.what_it_holds(index, &change.saved));
        reason.map(Refusal::Busy)
    }

    /// Why a node cannot leave yet.
    fn what_it_holds(&self, index: usize, saved: &[usize]) -> Option<&'static str> {
        let node = &self.nodes[index];
        if node.acks.as_ref().is_some_and(|acks| acks.outstanding() > 0) {
            return Some("elements that it has sent are not settled");
        }
        match &node.worker {
            _ if node.is_busy() || node.unfinished.current.is_some() || node.unfinished.holds_elements() => {
                Some("a call has not returned")
            }
            Worker::Inline(stage) if stage.held_bytes() > 0 && !saved.contains(&index) => {
                Some("it holds text of an element and cannot save it")
            }
            Worker::Offloaded(state) if state.exchange.has_acknowledgements() => {
                Some("it has not been told about all acknowledgements")
            }
            _ => None,
        }
    }

    fn exchange_graph(&mut self, change: GraphChange) {
        let first = self.nodes.len();
        let shared = self.edges.shared.clone();
        let old_edges = self.edges.list.len();
        let new_edges = change.edges.iter().filter(|edge| usize::from(edge.number) >= old_edges);
        self.edges.list.extend(new_edges.map(|edge| make_edge(&edge.spec)));
        for NumberedEdge { number, spec } in &change.edges {
            let edge = &mut self.edges.list[usize::from(*number)];
            edge.source = EdgeEnd::of(spec.source.map(|(node, _)| node));
            edge.target = EdgeEnd::of(spec.target);
            edge.input = spec.input;
        }
        shared.grow(&change.joining, self.edges.list.len() - old_edges);
        self.nodes.extend(change.joining);
        for index in change.staying.iter().copied().chain(first..self.nodes.len()) {
            let numbered = change.edges.iter().map(|edge| (edge.number, &edge.spec));
            self.nodes[index].connect(index, numbered);
        }
        for index in change.staying {
            if let Some(acks) = &self.nodes[index].acks {
                acks.settle_later_by_checkpoint(change.by_checkpoint.contains(&index));
            }
        }
        for (old, new) in change.successors {
            self.nodes[new].next_sequence = self.nodes[old].next_sequence;
        }
        let old = change.leaving.iter().map(|&index| self.retire(index)).collect();
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.requests.grow(change.segments);
            checkpoint.segment_of = change.segment_of;
        }
        self.order = Some(change.order);
        self.edges.tracks = self.nodes.iter().any(|node| node.acks.is_some());
        for node in &mut self.nodes {
            node.is_plain = is_plain(node, self.edges.tracks);
        }
        self.limit_batch();
        (change.done)(Ok(old));
    }

    /// The node never runs again; its counters stay.
    fn retire(&mut self, index: usize) -> Replacement {
        self.drop_absorbed(index, true);
        self.edges.shared.nodes[index].ledger.hold(0);
        let node = &mut self.nodes[index];
        node.phase = Phase::Finished;
        node.acks = None;
        node.unfinished.take_trial();
        node.unfinished.take_retry();
        node.connect(index, std::iter::empty());
        (node.takes_batches, node.pulls_many) = (false, false);
        let worker = std::mem::replace(&mut node.worker, Worker::Inline(Box::new(Null)));
        node.replacement(worker)
    }

    /// How many nodes run, and which one comes at a place: sources first.
    #[inline]
    pub(crate) fn places(&self) -> usize {
        self.order.as_ref().map_or(self.nodes.len(), |order| order.len())
    }

    #[inline]
    pub(crate) fn node_at(&self, place: usize) -> usize {
        self.order.as_ref().map_or(place, |order| usize::from(order[place]))
    }
}

pub(crate) fn make_edge(spec: &EdgeSpec) -> Edge {
    Edge {
        queue: Queue::new(spec.depth, spec.bytes, spec.policy, spec.low_watermark),
        source: EdgeEnd::of(spec.source.map(|(node, _)| node)),
        target: EdgeEnd::of(spec.target),
        input: spec.input,
        closed: None,
        accepts: Accepts::All,
    }
}
