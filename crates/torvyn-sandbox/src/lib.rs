//! Sandboxed components: WebAssembly guests as stages of a flow.
//!
//! `Sandbox` -> `CompiledComponent` (checked, linked, cached) -> `Instance` (a store and its guest) -> `GuestStage`. A
//! guest sees the WIT contract and its grants, nothing else; its time, memory and handles are limited.
#![deny(unsafe_code)]

mod batch_contract;
mod capabilities;
mod compile;
mod contract;
mod fault;
mod guest;
mod host;

pub use capabilities::capability::{BadCapability, Capability};
pub use capabilities::denial::{Auditor, Denial, Denials, Kind};
pub use capabilities::grants::Grants;
pub use capabilities::print::{Channel, Line, Printer};
pub use compile::cache;
pub use compile::compiled_component::{CompiledComponent, engine_id, precompile, remember};
pub use compile::description::Description;
pub use compile::engine::Sandbox;
pub use contract::Role;
pub use fault::SandboxError;
pub use guest::health::Health;
pub use guest::instance::{Instance, Setup};
pub use guest::stage::{GuestStage, SharedInstance};
pub use host::FlowInfo;
pub use host::details::{Attribute, Ending, Translator};
pub use host::limits::Limits;
