//! Sandboxed components: WebAssembly guests as stages of a flow.
//!
//! `Sandbox` -> `Compiled` (checked, linked, cached) -> `Instance` (a store and its guest) -> `GuestStage`. A guest sees
//! the WIT contract and what it was granted, nothing else; it may take time, memory and handles up to its limits.
#![deny(unsafe_code)]

mod address;
pub mod cache;
mod calls;
pub mod capability;
mod compiled;
mod complexity;
mod contract;
mod denial;
mod describe;
mod descriptors;
mod details;
mod engine;
mod fate;
mod fault;
mod footprint;
mod grants;
mod health;
mod host;
mod http;
mod imports;
mod instance;
mod limits;
mod print;
mod reach;
mod signature;
mod slab;
mod stage;
mod ticker;
mod watch;

pub use capability::{BadCapability, Capability};
pub use compiled::{Compiled, precompile, remember};
pub use contract::Role;
pub use denial::{Auditor, Denial, Denials, Kind};
pub use describe::Description;
pub use details::{Attribute, Ending, Translator};
pub use engine::Sandbox;
pub use fault::SandboxError;
pub use grants::Grants;
pub use health::Health;
pub use host::FlowFacts;
pub use instance::{Instance, Setup};
pub use limits::Limits;
pub use print::{Channel, Line, Printer};
pub use stage::{GuestStage, Seat};
