//! Frames as bytes: event streams and chunks read, frames written, JSON as far as it has come.
//!
//! Every reader is a state machine that is fed pieces of any size and gives the same answer however its input was cut.
//! Nothing here knows of Python, queues or sockets.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod event;
pub mod scan;

pub use chunk::{Quick, Shape};
pub use event::{Event, EventError, EventParser, Limits};
