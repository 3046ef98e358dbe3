//! The data path of edges that a NATS server carries: batches of an edge become messages of JetStream, and messages
//! become elements again, without a step in the host's language.
//!
//! An [`Output`] takes batches from the log of an edge and publishes them, one per subject at a time. An [`Input`]
//! reads a stream in order and supplies the log at the other end. Whoever owns them decides what is saved, what is
//! deleted and when a run has ended. One thread per process does all of it.

#![forbid(unsafe_code)]

mod answers;
mod attached;
mod batch_id;
mod connection;
mod consumer;
mod input;
mod names;
mod output;
mod output_queue;
mod read_messages;
mod runtime;
mod seen_batches;

pub use batch_id::BatchId;
pub use connection::{Connection, ConnectionError, Credentials, sign};
pub use input::{Input, InputOptions, OnEnd};
pub use names::EdgeNames;
pub use output::{Output, Published};
pub use output_queue::{Identity, Message, OutputQueue};
pub use read_messages::{Advance, ReadMessages};
pub use seen_batches::SeenBatches;
