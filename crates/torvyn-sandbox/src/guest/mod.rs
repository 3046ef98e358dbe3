//! Running guests: instances, the calls into them, their time limits and their health.

pub mod batch;
pub mod batch_calls;
pub mod calls;
pub mod health;
pub mod instance;
pub mod stage;
mod stage_calls;
pub mod ticker;
