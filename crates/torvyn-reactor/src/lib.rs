//! The reactor: runs flows turn by turn, on the caller's thread or on workers.
//!
//! A `Flow` is built from a `Blueprint`; its `Core` (queues, nodes, stages) belongs to whoever runs the turn, its
//! `Shared` part (counters, requests) may be touched by anybody at any time. No host code runs under a native lock.

pub mod blueprint;
pub mod clock;
mod conclude;
mod core;
mod desk;
mod dispatch;
mod ending;
mod exchange;
mod failing;
pub mod flow;
pub mod gate;
mod in_hand;
mod interrupt;
mod node;
pub mod offload;
pub mod parts;
pub mod pool;
mod run_queue;
pub mod shared;
pub mod signal;
mod thread_stat;
pub mod trace;
mod turn;
mod wires;

pub use blueprint::{Blueprint, EdgeSpec, OnError, Recovery, Role, Timing};
pub use clock::Clock;
pub use flow::{Driver, Flow, Status, StayOnExit};
pub use node::{Node, Worker};
pub use offload::{Finished, Offload, Task};
pub use pool::{Host, Pool};
pub use shared::{Failure, FailureKind, Shared, State};
pub use signal::Signal;
