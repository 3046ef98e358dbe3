//! The core of a flow: everything that only the thread that runs the turn may touch.

use std::collections::VecDeque;
use std::sync::Arc;

use torvyn_stream::{Element, Emission, End, Outbox, QueueCounters};

use crate::backoff::Jitter;
use crate::blueprint::{Annotate, Blueprint, OnError, StoreRefused, Timing};
use crate::checkpoints::Checkpoints;
use crate::clock::Clock;
use crate::edges::{Edge, Edges};
use crate::ends;
use crate::node::Node;
use crate::offload::MAX_CALL;
use crate::shared_state::{Failure, NodeCounters, SharedState};
use crate::swap::{Swap, is_plain};
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

/// The time of what never happens by itself.
pub const NEVER: u64 = u64::MAX;

pub struct Core {
    pub nodes: Vec<Node>,
    pub edges: Edges,
    /// Of the thread that runs the turn.
    pub outbox: Outbox,
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
    pub deadline_ns: u64,
    pub drain_timeout_ns: u64,
    pub drain_until_ns: u64,
    /// A node has failed: everything before the failure still reaches the sinks, then the flow fails.
    pub failing: bool,
    pub pulled: u64,
    pub timing: Timing,
    pub timed: bool,
    pub annotate: Option<Annotate>,
    pub on_error: Option<OnError>,
    pub store_refused: Option<StoreRefused>,
    pub tracer: Option<Box<Tracer>>,
    pub checkpoint: Option<Box<Checkpoints>>,
    /// The swaps that wait for their stages.
    pub swaps: Vec<Swap>,
}

impl Core {
    pub fn new(blueprint: Blueprint, shared: Arc<SharedState>, clock: Clock) -> Self {
        let quarters = u64::from(blueprint.quarter_weight.max(1));
        let quota_elements = (u64::from(blueprint.turn_elements) * quarters / 4).max(1);
        let started_ns = clock.now_ns();
        let edges: Vec<_> = blueprint.edges.iter().map(Edge::new).collect();
        let entry = edges.iter().position(|edge| edge.source.node().is_none());
        let exit = edges.iter().position(|edge| edge.target.node().is_none());
        let mut nodes = blueprint.nodes;
        let tracks = nodes.iter().any(|node| node.acks.is_some());
        for (index, node) in nodes.iter_mut().enumerate() {
            node.connect(index, (0..).zip(&blueprint.edges));
            node.is_plain = is_plain(node, tracks);
        }
        let takes_batches = nodes.iter().any(|node| node.takes_batches);
        Self {
            nodes,
            edges: Edges { list: edges, shared, tracks },
            outbox: Outbox::default(),
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
            deadline_ns: blueprint.deadline_ns.map_or(NEVER, |ns| started_ns.saturating_add(ns)),
            drain_timeout_ns: blueprint.drain_timeout_ns,
            drain_until_ns: NEVER,
            failing: false,
            pulled: 0,
            timing: blueprint.timing,
            timed: false,
            annotate: blueprint.annotate,
            on_error: blueprint.on_error,
            store_refused: blueprint.store_refused,
            tracer: None,
            checkpoint: blueprint.checkpoints.map(Box::new),
            swaps: Vec::new(),
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
            self.drain_until_ns = self.clock.now_ns().saturating_add(self.drain_timeout_ns);
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
        let node = self.edges.list[entry].target.node().unwrap_or(0);
        let now_ns = self.clock.now_ns();
        let back = self.edges.feed(entry, &self.nodes[node], emission, self.pulled, now_ns)?;
        self.pulled += u64::from(back.is_none());
        Ok(back)
    }

    pub fn has_output(&self) -> bool {
        self.exit.is_some_and(|exit| !self.edges.list[usize::from(exit)].queue.is_empty())
    }

    /// How the stream that leaves the flow ended.
    pub fn exit_end(&self) -> Option<&Arc<End>> {
        self.edges.list[usize::from(self.exit?)].closed.as_ref()
    }

    /// Bytes of state, and bytes of what elements wait in: everything that the reactor keeps for this flow, computed from
    /// sizes and capacities. A test compares it with what the allocator was asked for.
    ///
    /// An edge that leaves the process is one edge of the state, as any other. What it has besides, two nodes and a
    /// second queue, counts with what elements wait in.
    pub fn memory(&self) -> (usize, usize) {
        let shared = &self.edges.shared;
        let (mut state, mut waiting) = (size_of::<Self>() + shared.size_bytes(), 0);
        let is_carrier = |node: Option<usize>| node.is_some_and(|node| self.nodes[node].spec.is_carrier);
        for (index, (node, counters)) in self.nodes.iter().zip(shared.nodes.iter()).enumerate() {
            let own =
                size_of::<Node>() + node.heap_bytes() + size_of::<NodeCounters>() + counters.heap_bytes();
            *(if is_carrier(Some(index)) { &mut waiting } else { &mut state }) += own;
            waiting += node.waiting_bytes();
        }
        for edge in &self.edges.list {
            let own = size_of::<Edge>() + size_of::<QueueCounters>();
            *(if is_carrier(edge.source.node()) { &mut waiting } else { &mut state }) += own;
            waiting += edge.queue.heap_bytes();
        }
        state += (self.nodes.capacity() - self.nodes.len()) * size_of::<Node>()
            + (self.edges.list.capacity() - self.edges.list.len()) * size_of::<Edge>()
            + self.on_error.as_ref().map_or(0, |tell| size_of_val(&**tell))
            + self.store_refused.as_ref().map_or(0, |store| size_of_val(&**store))
            + self.tracer.as_ref().map_or(0, |tracer| size_of::<Tracer>() + tracer.heap_bytes())
            + self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size_bytes())
            + self.swaps.len() * size_of::<Swap>();
        let outcome = shared.outcome();
        let edges = self.edges.list.iter().filter_map(|edge| edge.closed.as_ref());
        let nodes = self.nodes.iter().filter_map(|node| node.end.as_ref());
        state += ends::size_bytes(nodes.chain(edges).chain(outcome.end.as_ref()));
        (state, waiting)
    }
}

/// The most elements that a source is pulled for at once.
fn max_batch(quota_elements: u64, takes_batches: bool) -> u32 {
    quota_elements.clamp(if takes_batches { MAX_CALL as u64 } else { 1 }, 1 << 16) as u32
}
