//! The reactor: runs flows turn by turn, on the caller's thread or on worker threads.
//!
//! A `Flow` is built from a `Blueprint`. Its `Core` (queues, nodes, stages) belongs to the thread that runs the turn; any
//! thread may use its `SharedState` (counters, requests) at any time. No host code runs under a native lock.

mod absorbed;
mod backoff;
pub mod blueprint;
mod buffers;
pub mod checkpoints;
pub mod clock;
mod core;
mod edges;
mod ends;
pub mod flow;
pub mod native_stages;
mod node;
mod node_spec;
pub mod offload;
pub mod run_state;
pub mod shared_state;
mod stay_on_exit;
pub mod swap;
pub mod trace;
mod turn;
mod unfinished;
pub mod wake_pipe;
pub mod workers;

pub use backoff::Backoff;
pub use blueprint::{Blueprint, EdgeSpec, OnError, Recovery, Refused, Role, StoreRefused, Timing};
pub use checkpoints::{Checkpoints, CutRequests, Rest};
pub use clock::Clock;
pub use flow::{Driver, Flow, Status};
pub use node::{Node, Worker};
pub use node_spec::NodeSpec;
pub use offload::{Offload, Task, TaskResult};
pub use shared_state::{Failure, FailureKind, SharedState, State};
pub use stay_on_exit::StayOnExit;
pub use swap::{Exchanged, Refusal, Replacement, Swap};
pub use turn::method_name;
pub use wake_pipe::WakePipe;
pub use workers::pool::{Host, Pool};
