//! Capabilities: what a guest may request, what it is granted, and the audit of what it is denied.

pub mod address;
pub mod capability;
pub mod denial;
pub mod descriptors;
pub mod deterministic_world;
pub mod grants;
pub mod http;
pub mod network_policy;
pub mod print;
pub mod wasi_audit;
