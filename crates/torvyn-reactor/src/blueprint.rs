//! The blueprint: everything the reactor needs to run one flow, with stages made and names turned into numbers.

use std::sync::Arc;

use torvyn_stream::{Element, Policy, Stage, StageError};

use crate::offload::Offload;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Source,
    Processor,
    Filter,
    Router,
    Aggregator,
    Sink,
}

/// What happens to an element whose call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    FailFast,
    Skip,
    DeadLetter,
}

/// Who does a node's work.
pub enum Work {
    /// The thread that runs the turn.
    Inline(Box<dyn Stage>),
    /// Somebody else, through an exchange of tasks and results.
    Offloaded(Arc<Offload>),
}

pub struct NodeSpec {
    pub role: Role,
    pub work: Work,
    /// Number of output ports; with `Recovery::DeadLetter` the last one takes failed elements.
    pub ports: usize,
    pub retries: u32,
    pub backoff_ns: u64,
    pub recovery: Recovery,
    pub budget_bytes: u64,
}

/// An edge. Without a source it is the flow's entry, without a target its exit.
pub struct EdgeSpec {
    pub source: Option<(usize, usize)>,
    pub target: Option<usize>,
    pub depth: usize,
    pub bytes: usize,
    pub policy: Policy,
    pub low_watermark: f64,
}

/// How many calls are timed: two clock readings cost more than a native call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    Off,
    Sampled,
    Every,
}

/// Notes on an element why it failed, before it goes to the dead letters.
pub type Annotate = fn(&mut Element, &StageError);

/// Told of errors that a policy lives with: the node, the error, the element's sequence, and how many it has had.
pub type OnError = Box<dyn Fn(usize, &StageError, Option<u64>, u64) + Send>;

/// Nodes are in topological order.
pub struct Blueprint {
    pub nodes: Vec<NodeSpec>,
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
}
