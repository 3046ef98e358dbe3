//! Compilation: from a WebAssembly file to a component that is checked, linked and ready to instantiate.

pub mod cache;
pub mod compiled_component;
pub mod complexity;
pub mod description;
pub mod engine;
pub mod signature;
