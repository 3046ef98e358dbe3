//! Edges that leave the process: elements are encoded into batches, and decoded again where they are read.
//!
//! A [`EdgeLog`] stands between the two ends of such an edge. The writer is a sink of the flow: it encodes what it
//! accepts. The reader is a source of the flow: it emits what it is supplied with. A carrier outside, which knows the
//! disk or the network, takes the batches and supplies them. Nothing here does I/O.

#![forbid(unsafe_code)]

mod batch;
mod bell;
mod clock_offset;
mod edge_log;
mod flow_end;
mod reader;
mod varint;
mod writer;

pub use batch::{Attributes, BatchBuilder, BatchError, Keys, Marks, Stored, decode, join};
pub use bell::Bell;
pub use edge_log::{Batch, EdgeLog, Key, Lane, Limits, Receipts, Restore};
pub use flow_end::FlowEnd;
pub use reader::LogReader;
pub use writer::LogWriter;
