//! The part of a flow that any thread may use at any time: requests to it, counters, and how it ended.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use torvyn_stream::{AckLog, Counter, End, Ledger, QueueCounters, Rare, StageError};

use crate::node::Node;
use crate::swap::Swap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Running = 0,
    Draining = 1,
    Completed = 2,
    Cancelled = 3,
    Failed = 4,
}

impl State {
    fn from_u8(value: u8) -> State {
        match value {
            0 => State::Running,
            1 => State::Draining,
            2 => State::Completed,
            3 => State::Cancelled,
            _ => State::Failed,
        }
    }

    pub fn is_over(self) -> bool {
        matches!(self, State::Completed | State::Cancelled | State::Failed)
    }
}

/// Requests to the whole flow, as bits: a control lane that no full queue can block.
pub mod request {
    pub const CANCEL: u32 = 1;
    pub const DRAIN: u32 = 2;
    pub const INTERRUPT: u32 = 4;
    /// A node has requests of its own.
    pub const NODE: u32 = 8;
    /// The caller will feed nothing more.
    pub const FINISH: u32 = 16;
    /// The stage of a node is to be exchanged.
    pub const SWAP: u32 = 32;
}

/// Requests to one node.
pub mod node_request {
    pub const WAKE: u8 = 1;
    pub const RESUME: u8 = 2;
    pub const INTERRUPT: u8 = 4;
    /// The stage is no longer on trial.
    pub const END_TRIAL: u8 = 8;
    /// The stage on trial does not return from a call.
    pub const FAIL_TRIAL: u8 = 16;
    /// The node is held for a swap that will not take place.
    pub const LET_GO: u8 = 32;
}

/// The account of one node. At the end of every turn
/// `received = passed + filtered + failed + dead_lettered + absorbed + unread`.
#[derive(Debug, Default)]
pub struct NodeCounters {
    /// Elements that the node has started to process.
    pub received: Counter,
    /// Elements that were passed on in any form, or that a sink accepted.
    pub passed: Counter,
    /// Elements started and not concluded: those in progress now, and those in progress when the stream ended.
    pub unread: Counter,
    /// Elements sent to the node's edges, without dead letters. An element on several edges counts once.
    pub emitted: Counter,
    /// The total time of the sampled calls, and their number.
    pub sampled_ns: Counter,
    pub sampled_calls: Counter,
    pub rare: Rare<RareCounters>,
    pub ledger: Ledger,
    requests: AtomicU8,
}

/// What most nodes of a flow never count.
#[derive(Debug, Default)]
pub struct RareCounters {
    /// Elements that a verdict dropped.
    pub filtered: Counter,
    /// Elements whose call failed and that no policy rescued.
    pub failed: Counter,
    pub dead_lettered: Counter,
    /// Elements that an aggregator, or a guard that buffers text, has taken into its own state.
    pub absorbed: Counter,
    /// Elements sent to a port that deliberately has no edge.
    pub ignored: Counter,
    /// Calls that failed, including retries.
    pub errors: Counter,
    pub retried: Counter,
}

impl NodeCounters {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rare.heap_bytes() + self.ledger.heap_bytes()
    }

    pub fn take_requests(&self) -> u8 {
        self.requests.swap(0, Ordering::AcqRel)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A component's call failed.
    Component,
    /// A queue with the policy `error` was full.
    QueueFull,
    /// A node used more than its budget.
    MemoryExceeded,
    /// The flow's deadline passed.
    DeadlineExceeded,
    /// The reactor itself panicked.
    Panic,
}

#[derive(Debug)]
pub struct Failure {
    pub kind: FailureKind,
    pub node: Option<usize>,
    pub edge: Option<usize>,
    pub sequence: Option<u64>,
    pub method: &'static str,
    pub error: StageError,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub end: Option<Arc<End>>,
    pub failure: Option<Box<Failure>>,
}

/// The sources that are told what is settled, by their nodes.
type SourceAcks = Box<[(usize, Arc<AckLog>)]>;

#[derive(Debug)]
pub struct SharedState {
    state: AtomicU8,
    requests: AtomicU32,
    pub nodes: Box<[NodeCounters]>,
    pub edges: Box<[QueueCounters]>,
    /// The acknowledgements of the sources that ask for them, with their nodes. Set when the flow is built.
    acks: OnceLock<SourceAcks>,
    pub turns: Counter,
    limit: AtomicU64,
    /// The node whose component may be running now, to name when a turn does not end. `NO_NODE` between turns.
    running_node: AtomicU32,
    outcome: Mutex<Outcome>,
    /// The stages that the next turn is to exchange.
    swaps: Mutex<Vec<Swap>>,
}

const NO_NODE: u32 = u32::MAX;

impl SharedState {
    pub fn new(nodes: usize, edges: usize) -> Self {
        Self {
            state: AtomicU8::new(State::Running as u8),
            requests: AtomicU32::new(0),
            nodes: (0..nodes).map(|_| NodeCounters::default()).collect(),
            edges: (0..edges).map(|_| QueueCounters::default()).collect(),
            acks: OnceLock::new(),
            turns: Counter::default(),
            limit: AtomicU64::new(u64::MAX),
            running_node: AtomicU32::new(NO_NODE),
            outcome: Mutex::default(),
            swaps: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn set_running_node(&self, node: Option<usize>) {
        self.running_node.store(node.map_or(NO_NODE, |node| node as u32), Ordering::Relaxed);
    }

    pub fn running_node(&self) -> Option<usize> {
        let node = self.running_node.load(Ordering::Relaxed);
        (node != NO_NODE).then_some(node as usize)
    }

    /// Changes with every call that ends: an unchanged value means that one call is still running.
    pub(crate) fn progress(&self) -> u64 {
        let calls = |node: &NodeCounters| {
            let rare = node.rare.counted().map_or(0, |rare| rare.filtered.get() + rare.errors.get());
            node.received.get() + node.emitted.get() + rare
        };
        let node = u64::from(self.running_node.load(Ordering::Relaxed));
        self.nodes.iter().map(calls).fold(node << 32, u64::wrapping_add)
    }

    pub fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub fn state(&self) -> State {
        State::from_u8(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// The number of source elements after which the flow drains; `u64::MAX` for no limit.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub fn set_limit(&self, elements: u64) {
        self.limit.store(elements, Ordering::Relaxed);
    }

    pub fn request(&self, what: u32) {
        self.requests.fetch_or(what, Ordering::AcqRel);
    }

    pub fn request_node(&self, node: usize, what: u8) {
        self.nodes[node].requests.fetch_or(what, Ordering::AcqRel);
        self.request(request::NODE);
    }

    fn swaps(&self) -> MutexGuard<'_, Vec<Swap>> {
        self.swaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a swap for the next turn.
    pub fn request_swap(&self, swap: Swap) {
        self.swaps().push(swap);
        self.request(request::SWAP);
    }

    pub(crate) fn take_swaps(&self) -> Vec<Swap> {
        std::mem::take(&mut *self.swaps())
    }

    /// Notes which nodes ask for acknowledgements. In most flows none does.
    pub(crate) fn note_acks(&self, nodes: &[Node]) {
        let asking = nodes.iter().enumerate().filter_map(|(index, node)| Some((index, node.acks.clone()?)));
        let _ = self.acks.set(asking.collect());
    }

    /// The acknowledgements of the sources that ask for them, with their nodes.
    pub fn acks(&self) -> &[(usize, Arc<AckLog>)] {
        self.acks.get().map_or(&[], |acks| acks)
    }

    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn take_requests(&self) -> u32 {
        self.requests.swap(0, Ordering::AcqRel)
    }

    /// The size in bytes with the heap, but without the counters of nodes and edges.
    pub fn size_bytes(&self) -> usize {
        2 * size_of::<usize>()
            + size_of::<Self>()
            + size_of_val(self.acks())
            + self.outcome().failure.as_ref().map_or(0, |_| size_of::<Failure>())
    }
}
