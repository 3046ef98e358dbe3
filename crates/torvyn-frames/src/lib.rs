//! Frames as bytes: parses event streams and chunks, encodes frames, parses JSON while it arrives.
//!
//! Every parser is a state machine that takes pieces of any size and gives the same result however its input is split.
//! Nothing here knows Python, queues or sockets.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod encoder;
pub mod escape;
pub mod event;
pub mod frame;
pub mod json_builder;
mod numbers;
mod openai;
pub mod partial;
pub mod proto;
pub mod scan;

pub use chunk::{Quick, Shape};
pub use encoder::{Encoder, VERSION};
pub use event::{Event, EventError, EventParser, Limits};
pub use frame::{Call, Dialect, Failure, Finish, Framing, Identity, Kind, Usage};
pub use json_builder::{Build, PartialError, Scalar};
pub use numbers::Numbers;
pub use partial::PartialJson;
