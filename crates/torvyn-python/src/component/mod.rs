//! Components as stages: Python ones called with as little overhead as possible, and native ones.

pub mod batch_results;
pub mod call;
pub mod interpret;
pub mod methods;
pub mod named_inputs;
pub mod native_stage;
pub mod stage;
pub mod timer;
