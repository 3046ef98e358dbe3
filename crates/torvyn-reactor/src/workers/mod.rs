//! Worker threads: the pool, the run queue it takes flows from, and the watchdog that reports blocked workers.

mod dispatch;
pub mod pool;
mod run_queue;
mod thread_stat;
mod worker_activity;
