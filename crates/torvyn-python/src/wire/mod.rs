//! The encoders and parsers of `torvyn-frames` as Python classes.

pub mod events;
pub mod frame_stage;
pub mod frames;
mod halves;
#[cfg(feature = "network")]
pub mod headers;
pub mod messages;
pub mod partial_json;
