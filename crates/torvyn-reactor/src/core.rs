//! The core of a flow: everything that only the thread that runs the turn may touch.

use std::collections::VecDeque;
use std::sync::Arc;

use torvyn_stream::{Answers, Element, Emission, End, Outbox};

use crate::backoff::Jitter;
use crate::blueprint::{Annotate, Blueprint, OnError, Timing};
use crate::checkpoints::Checkpoints;
use crate::clock::Clock;
use crate::edges::{Edge, Edges};
use crate::node::Node;
use crate::offload::MAX_CALL;
use crate::shared_state::{Failure, SharedState};
use crate::swap::{Swap, is_plain, make_edge};
use crate::trace::Tracer;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do now.
    Again,
    /// Elements wait at the exit for the caller.
    Output,
    /// Nothing to do until the flow is woken, or until the given time.
    Parked(Option<u64>),
    Over,
}

pub struct Core {
    pub nodes: Vec<Node>,
    /// The nodes that run, from the sources down, once the graph has changed; until then all of them.
    pub order: Option<Box<[u16]>>,
    pub edges: Edges,
    pub outbox: Outbox,
    /// The results of the last batch.
    pub answers: Answers,
    /// Some stage takes batches.
    pub takes_batches: bool,
    pub jitter: Jitter,
    pub clock: Clock,
    pub now_ns: u64,
    pub batch: u32,
    pub max_batch: u32,
    /// How long the sources of this sweep took to return single elements. Measured in flows with batches only.
    pub pull_ns: u64,
    pub turn_time_ns: u64,
    pub quota_elements: i64,
    pub quota_ns: i64,
    pub credit_elements: i64,
    pub credit_ns: i64,
    pub entry: Option<u16>,
    pub exit: Option<u16>,
    pub deadline_ns: Option<u64>,
    pub drain_timeout_ns: u64,
    pub drain_until: Option<u64>,
    /// A node has failed: everything before the failure still reaches the sinks, then the flow fails.
    pub failing: bool,
    pub pulled: u64,
    pub timing: Timing,
    pub timed: bool,
    pub annotate: Option<Annotate>,
    pub on_error: Option<OnError>,
    pub tracer: Option<Box<Tracer>>,
    pub checkpoint: Option<Box<Checkpoints>>,
    /// The swap that waits for its stage.
    pub swap: Option<Box<Swap>>,
}

impl Core {
    pub fn new(blueprint: Blueprint, shared: Arc<SharedState>, clock: Clock) -> Self {
        let quarters = u64::from(blueprint.quarter_weight.max(1));
        let quota_elements = (u64::from(blueprint.turn_elements) * quarters / 4).max(1);
        let started_ns = clock.now_ns();
        let edges: Vec<_> = blueprint.edges.iter().map(make_edge).collect();
        let entry = edges.iter().position(|edge| edge.source.is_none());
        let exit = edges.iter().position(|edge| edge.target.is_none());
        let mut nodes = blueprint.nodes;
        let tracks = nodes.iter().any(|node| node.acks.is_some());
        for (index, node) in nodes.iter_mut().enumerate() {
            node.connect(index, (0..).zip(&blueprint.edges));
            node.is_plain = is_plain(node, tracks);
        }
        let takes_batches = nodes.iter().any(|node| node.takes_batches);
        Self {
            nodes,
            order: None,
            edges: Edges { list: edges, shared, tracks },
            outbox: Outbox::default(),
            answers: Answers::default(),
            takes_batches,
            now_ns: started_ns,
            jitter: Jitter::new(&clock),
            clock,
            batch: 1,
            max_batch: max_batch(quota_elements, takes_batches),
            pull_ns: 0,
            turn_time_ns: blueprint.turn_time_ns,
            quota_elements: quota_elements as i64,
            quota_ns: (blueprint.turn_time_ns * quarters / 4).max(1) as i64,
            credit_elements: 0,
            credit_ns: 0,
            entry: entry.map(|index| index as u16),
            exit: exit.map(|index| index as u16),
            deadline_ns: blueprint.deadline_ns.map(|ns| started_ns + ns),
            drain_timeout_ns: blueprint.drain_timeout_ns,
            drain_until: None,
            failing: false,
            pulled: 0,
            timing: blueprint.timing,
            timed: false,
            annotate: blueprint.annotate,
            on_error: blueprint.on_error,
            tracer: None,
            checkpoint: blueprint.checkpoints.map(Box::new),
            swap: None,
        }
    }

    /// Bounds the batches of sources after a stage was exchanged.
    pub fn limit_batch(&mut self) {
        self.takes_batches = self.nodes.iter().any(|node| node.takes_batches);
        self.max_batch = max_batch(self.quota_elements as u64, self.takes_batches);
        self.batch = self.batch.min(self.max_batch);
    }

    /// Moves up to `most` outputs from the exit into `into`. They have left the flow: the ledger releases them.
    pub fn take_output(&mut self, into: &mut VecDeque<Element>, most: usize) {
        let Some(exit) = self.exit else { return };
        let Edges { list, shared, .. } = &mut self.edges;
        let edge = &mut list[usize::from(exit)];
        if self.failing && !edge.queue.is_empty() {
            // A reader that continues gets the time to read everything before the failure.
            self.drain_until = Some(self.clock.now_ns().saturating_add(self.drain_timeout_ns));
        }
        for _ in 0..most {
            let Some(element) = edge.queue.pop() else { break };
            if element.payload.is_last() {
                shared.nodes[element.owner()].ledger.release(u64::from(element.len));
            }
            into.push_back(element);
        }
        edge.queue.publish(&shared.edges[usize::from(exit)]);
    }

    /// Counts `count` elements that the caller took from the exit and will not read.
    pub fn count_unread_output(&mut self, count: u64) {
        if let Some(exit) = self.exit.map(usize::from) {
            self.edges.list[exit].queue.count_unread(count);
            self.edges.list[exit].queue.publish(&self.edges.shared.edges[exit]);
        }
    }

    pub fn feed_capacity(&self) -> usize {
        match self.entry {
            Some(entry) if self.edges.list[usize::from(entry)].closed.is_none() => {
                self.edges.list[usize::from(entry)].queue.free_slots()
            }
            _ => 0,
        }
    }

    /// Feeds an element into the entry; it is returned if it does not fit. The first node's budget pays for it.
    pub fn feed(&mut self, emission: Emission) -> Result<Option<Emission>, Failure> {
        let Some(entry) = self.entry.map(usize::from) else { return Ok(Some(emission)) };
        let node = self.edges.list[entry].target.map_or(0, usize::from);
        let now_ns = self.clock.now_ns();
        let back = self.edges.feed(entry, &self.nodes[node], emission, self.pulled, now_ns)?;
        self.pulled += u64::from(back.is_none());
        Ok(back)
    }

    pub fn has_output(&self) -> bool {
        self.exit.is_some_and(|exit| !self.edges.list[usize::from(exit)].queue.is_empty())
    }

    /// How the stream that leaves the flow ended.
    pub fn exit_end(&self) -> Option<&End> {
        self.edges.list[usize::from(self.exit?)].closed.as_deref()
    }

    /// Bytes of state and of queues: everything the reactor keeps for this flow, computed from sizes and capacities.
    pub fn memory(&self) -> (usize, usize) {
        let nodes: usize = self.nodes.iter().map(Node::heap_bytes).sum();
        let state = size_of::<Self>()
            + self.nodes.capacity() * size_of::<Node>()
            + nodes
            + self.edges.list.capacity() * size_of::<Edge>()
            + self.outbox.made.capacity() * size_of::<Emission>()
            + self.edges.shared.size_bytes();
        let queues = self.edges.list.iter().map(|edge| edge.queue.heap_bytes()).sum();
        (state, queues)
    }
}

/// The most elements that a source is pulled for at once.
fn max_batch(quota_elements: u64, takes_batches: bool) -> u32 {
    quota_elements.clamp(if takes_batches { MAX_CALL as u64 } else { 1 }, 1 << 16) as u32
}
