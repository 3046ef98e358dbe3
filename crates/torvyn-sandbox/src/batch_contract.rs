//! The types of the interfaces that 0.3.0 adds, as they cross the border: batches, their results, and state.
//!
//! A batch is a few flat lists, so its cost does not grow with calls into the guest's allocator.

use wasmtime::component::{ComponentType, Lift, Lower, Resource};

use crate::contract::{BackpressureSignal, FlowContext, ProcessError, Role};
use crate::host::details::Attribute;

pub const STATE: &str = "torvyn:streaming/state@0.3.0";

/// The interface with a role's batch function, and the name of that function.
pub fn batch_interface(role: Role) -> Option<(&'static str, &'static str)> {
    match role {
        Role::Source | Role::PolledSource => Some(("torvyn:streaming/batch-source@0.3.0", "pull-batch")),
        Role::Processor | Role::Expander => Some(("torvyn:streaming/batch-processor@0.3.0", "process-batch")),
        Role::Filter | Role::Guard => Some(("torvyn:streaming/batch-filter@0.3.0", "evaluate-batch")),
        Role::Aggregator => Some(("torvyn:streaming/batch-aggregator@0.3.0", "ingest-batch")),
        Role::Sink => Some(("torvyn:streaming/batch-sink@0.3.0", "push-batch")),
        Role::Router => None,
    }
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub struct Attributed {
    pub position: u32,
    pub name: String,
    pub value: String,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub struct BatchIn {
    pub data: Vec<u8>,
    pub ends: Vec<u32>,
    pub sequences: Vec<u64>,
    #[component(name = "timestamps-ns")]
    pub timestamps_ns: Vec<u64>,
    #[component(name = "content-type")]
    pub content_type: std::sync::Arc<str>,
    pub attributes: Vec<Attributed>,
}

/// The parameters of every batch function but a source's.
pub type BatchParams = (BatchIn, Resource<FlowContext>);

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct Failed {
    pub position: u32,
    pub error: ProcessError,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct OutputDetail {
    pub position: u32,
    #[component(name = "content-type")]
    pub content_type: Option<String>,
    pub attributes: Option<Vec<Attribute>>,
    pub keep: bool,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct Outputs {
    pub data: Vec<u8>,
    pub ends: Vec<u32>,
    pub origins: Vec<u32>,
    #[component(name = "content-type")]
    pub content_type: String,
    pub details: Vec<OutputDetail>,
    pub failures: Vec<Failed>,
}

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code)]
pub enum Progress {
    #[component(name = "more")]
    More,
    #[component(name = "pending")]
    Pending,
    #[component(name = "end")]
    End,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct Pulled {
    pub outputs: Outputs,
    pub progress: Progress,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct Verdicts {
    pub verdicts: Vec<u8>,
    pub outputs: Outputs,
    pub reason: String,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct Pushed {
    pub taken: u32,
    pub signal: BackpressureSignal,
    pub failures: Vec<Failed>,
}
