//! The blueprint: everything the reactor needs to run one flow. Nodes are named by their position.

use torvyn_stream::{Element, Ledger, Policy, StageError};

use crate::checkpoints::Checkpoints;
use crate::node::Node;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Source,
    Processor,
    Filter,
    Router,
    Aggregator,
    Sink,
}

/// What happens to an element whose call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    FailFast,
    Skip,
    /// It is sent through the last port of its node.
    DeadLetter,
    /// It is stored by the host.
    Store,
    /// An element that was refused as invalid is stored by the host; any other failure ends the flow.
    SetAside,
}

/// An edge. Without a source it is the flow's entry, without a target its exit.
pub struct EdgeSpec {
    pub source: Option<(usize, usize)>,
    pub target: Option<usize>,
    /// The position of its input among the named inputs of its target; 0 if they have no names.
    pub input: u16,
    pub depth: usize,
    pub bytes: usize,
    pub policy: Policy,
    pub low_watermark: f64,
    /// Elements whose time is longer ago are dropped instead of being handed to the target; 0 for no limit.
    pub max_age_ns: u64,
}

/// How many calls are timed: two clock readings cost more than a native call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    Off,
    Sampled,
    Every,
}

/// Writes the reason of a failure into an element before it becomes a dead letter.
pub type Annotate = fn(&mut Element, &StageError);

/// Called for each error that a policy handles: the node, the error, the element's sequence, the node's error count.
pub type OnError = Box<dyn Fn(usize, &StageError, Option<u64>, u64) + Send>;

/// What a node has refused, for the host to store.
pub struct Refused<'a> {
    pub node: usize,
    /// None: a source could not make an element of it, and the error has it.
    pub element: Option<&'a Element>,
    pub error: &'a StageError,
    /// Counts the copies of the node.
    pub ledger: &'a Ledger,
    pub now_ns: u64,
}

/// Stores what was refused durably, before it is settled. False: it cannot be stored now.
pub type StoreRefused = Box<dyn Fn(Refused<'_>) -> bool + Send>;

/// One flow, ready to run. Nodes are in topological order.
pub struct Blueprint {
    pub nodes: Vec<Node>,
    pub edges: Vec<EdgeSpec>,
    /// Share of the workers, in quarters: Normal is 4, Critical 16, Background 1.
    pub quarter_weight: u32,
    pub turn_elements: u32,
    pub turn_time_ns: u64,
    pub drain_timeout_ns: u64,
    pub deadline_ns: Option<u64>,
    /// Whether turns must run attached to the host language.
    pub hosted: bool,
    pub annotate: Option<Annotate>,
    pub timing: Timing,
    pub on_error: Option<OnError>,
    /// What stores the elements of `Recovery::Store` and `Recovery::SetAside`; without it they are not settled.
    pub store_refused: Option<StoreRefused>,
    pub checkpoints: Option<Checkpoints>,
}
