//! The encoders and parsers of `torvyn-frames` as Python classes.

pub mod events;
pub mod frame_stage;
pub mod frames;
pub mod partial_json;
