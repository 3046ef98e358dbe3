//! Frames as bytes: event streams and chunks read, frames written, JSON as far as it has come.
//!
//! Every reader is a state machine that is fed pieces of any size and gives the same answer however its input was cut.
//! Nothing here knows of Python, queues or sockets.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod encoder;
pub mod escape;
pub mod event;
pub mod frame;
pub mod json_builder;
mod openai;
pub mod partial;
pub mod scan;

pub use chunk::{Quick, Shape};
pub use encoder::{Encoder, VERSION};
pub use event::{Event, EventError, EventParser, Limits};
pub use frame::{Call, Dialect, Failure, Finish, Framing, Identity, Kind, Usage};
pub use json_builder::{Build, PartialError, Scalar};
pub use partial::PartialJson;
