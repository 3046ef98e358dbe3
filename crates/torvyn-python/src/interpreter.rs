//! Threads of ours that wait for the interpreter say so, and a thread that runs a flow hands it over between two turns.
//!
//! Without that, a thread that has done its work detached waits for the switch interval, 5 ms, before Python asks the
//! flow's thread to let go. Releasing the interpreter without knowing that somebody waits does not help: the flow's
//! thread has taken it back before the other one has woken up, which then waits anew.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How many threads wait.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// On a busy machine the thread that waits may not get a core for long, and a third thread may take the interpreter
/// first. The flow then goes on.
const LONGEST_HAND_OVER: Duration = Duration::from_micros(200);

struct Request;

impl Request {
    fn new() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does some work without the interpreter, and takes it back as soon as a flow's thread can hand it over.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (done, _request) = py.detach(|| {
        let done = work();
        (done, Request::new())
    });
    done
}

pub fn is_wanted() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// For a thread that has just released the interpreter: returns once a thread that waited has it.
pub fn wait_until_taken() {
    let began = Instant::now();
    while is_wanted() && began.elapsed() < LONGEST_HAND_OVER {
        thread::yield_now();
    }
}
