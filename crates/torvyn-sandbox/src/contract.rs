//! The types of the WIT packages, as they cross the border. Every type that a guest sees is defined here once.
//!
//! Inputs are shared (names are reference-counted, payloads are handles); outputs are read in place where possible.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lift, Lower, Resource};

/// Marks handles of payloads that can be read.
pub struct Buffer;
/// Marks handles of payloads that are being written.
pub struct MutableBuffer;
/// Marks handles of the flow.
pub struct FlowContext;

#[derive(ComponentType, Lower)]
#[component(record)]
pub struct MetaIn {
    pub sequence: u64,
    #[component(name = "timestamp-ns")]
    pub timestamp_ns: u64,
    #[component(name = "content-type")]
    pub content_type: Arc<str>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub struct StreamElement {
    pub meta: MetaIn,
    pub payload: Resource<Buffer>,
    pub context: Resource<FlowContext>,
}

/// What a guest says about an output. The flow sets its sequence number and time, whatever the guest says.
#[derive(ComponentType, Lift)]
#[component(record)]
#[allow(dead_code)]
pub struct MetaOut {
    pub sequence: u64,
    #[component(name = "timestamp-ns")]
    pub timestamp_ns: u64,
    #[component(name = "content-type")]
    pub content_type: String,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct OutputElement {
    pub meta: MetaOut,
    pub payload: Resource<Buffer>,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub enum ProcessResult {
    #[component(name = "emit")]
    Emit(OutputElement),
    #[component(name = "drop")]
    Drop,
}

#[derive(ComponentType, Lift, Debug)]
#[component(variant)]
pub enum ProcessError {
    #[component(name = "invalid-input")]
    InvalidInput(String),
    #[component(name = "unavailable")]
    Unavailable(String),
    #[component(name = "internal")]
    Internal(String),
    #[component(name = "deadline-exceeded")]
    DeadlineExceeded,
    #[component(name = "fatal")]
    Fatal(String),
}

#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Eq)]
#[component(enum)]
#[repr(u8)]
pub enum BackpressureSignal {
    #[component(name = "ready")]
    Ready,
    #[component(name = "pause")]
    Pause,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub enum BufferError {
    #[component(name = "capacity-exceeded")]
    CapacityExceeded,
    #[component(name = "out-of-bounds")]
    OutOfBounds,
    #[component(name = "allocation-failed")]
    AllocationFailed(String),
}

/// 0.2.0: what a guard returns.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub enum Verdict {
    #[component(name = "pass")]
    Pass,
    #[component(name = "drop")]
    Drop,
    #[component(name = "replace")]
    Replace(OutputElement),
    #[component(name = "block")]
    Block(String),
    #[component(name = "hold")]
    Hold,
}

/// 0.2.0: what a polled source returns.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub enum Polled {
    #[component(name = "element")]
    Element(OutputElement),
    #[component(name = "end")]
    End,
    #[component(name = "pending")]
    Pending,
}

pub const TYPES: &str = "torvyn:streaming/types@0.1.0";
pub const ALLOCATOR: &str = "torvyn:streaming/buffer-allocator@0.1.0";
pub const LIFECYCLE: &str = "torvyn:streaming/lifecycle@0.1.0";
pub const CAPABILITIES: &str = "torvyn:capabilities/capability-query@0.1.0";

/// A guest's role, derived from the interface it exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Source,
    PolledSource,
    Processor,
    Expander,
    Filter,
    Guard,
    Router,
    Aggregator,
    Sink,
}

impl Role {
    pub const ALL: [Role; 9] = [
        Role::Source,
        Role::PolledSource,
        Role::Processor,
        Role::Expander,
        Role::Filter,
        Role::Guard,
        Role::Router,
        Role::Aggregator,
        Role::Sink,
    ];

    pub fn interface(self) -> &'static str {
        match self {
            Role::Source => "torvyn:streaming/source@0.1.0",
            Role::PolledSource => "torvyn:streaming/polled-source@0.2.0",
            Role::Processor => "torvyn:streaming/processor@0.1.0",
            Role::Expander => "torvyn:streaming/expander@0.2.0",
            Role::Filter => "torvyn:filtering/filter@0.1.0",
            Role::Guard => "torvyn:filtering/guard@0.2.0",
            Role::Router => "torvyn:filtering/router@0.1.0",
            Role::Aggregator => "torvyn:aggregation/aggregator@0.1.0",
            Role::Sink => "torvyn:streaming/sink@0.1.0",
        }
    }

    /// The role's name in flows.
    pub fn name(self) -> &'static str {
        match self {
            Role::Source | Role::PolledSource => "source",
            Role::Processor | Role::Expander => "processor",
            Role::Filter | Role::Guard => "filter",
            Role::Router => "router",
            Role::Aggregator => "aggregator",
            Role::Sink => "sink",
        }
    }

    pub fn world(self, has_lifecycle: bool) -> &'static str {
        match self {
            Role::Source => "data-source",
            Role::PolledSource => "polled-data-source",
            Role::Processor if has_lifecycle => "managed-transform",
            Role::Processor => "transform",
            Role::Expander => "expanding-transform",
            Role::Filter => "content-filter",
            Role::Guard => "content-guard",
            Role::Router => "content-router",
            Role::Aggregator => "stream-aggregator",
            Role::Sink => "data-sink",
        }
    }
}
