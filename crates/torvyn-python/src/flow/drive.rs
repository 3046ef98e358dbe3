//! Turns of a flow on the thread of the caller, and its waits between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use torvyn_reactor::{Driver, Status, StayOnExit, WakePipe};
use torvyn_stream::Element;

use crate::element::convert::companion;
use crate::enums::TurnStatus;
use crate::flow::NativeFlow;
use crate::interpreter;
use crate::symbols::Symbols;

/// How long a hosted flow runs before it lets other threads of Python run. A thread that waits asks for its turn after
/// the 5 ms of Python's switch interval, and is certain to get it only once it has asked. Every release before that
/// makes it wait for the 5 ms again, because the flow takes the interpreter back before the thread has woken up.
const ATTACHED_SLICE: Duration = Duration::from_micros(5_500);

/// Native flows run detached for this long between checks for signals.
const DETACHED_SLICE: Duration = Duration::from_millis(5);

impl NativeFlow {
    pub fn signal(&self) -> PyResult<Arc<WakePipe>> {
        if let Some(signal) = self.signal.get() {
            return Ok(signal.clone());
        }
        let signal = Arc::new(WakePipe::new()?);
        let signal = self.signal.get_or_init(|| signal).clone();
        self.flow.set_driver(Driver::Caller(signal.clone()));
        Ok(signal)
    }

    /// Runs turns until the flow is over, has an output, or must wait and may not.
    pub fn drive_turns(&self, py: Python<'_>, until_output: bool, wait: bool) -> PyResult<TurnStatus> {
        let mut attached = Instant::now();
        loop {
            let status = if self.flow.hosted {
                self.flow.run_turn(false, until_output)
            } else {
                py.detach(|| self.run_slice(until_output))
            };
            match status.ok_or_else(busy)? {
                Status::Again if wait => {
                    let is_long = attached.elapsed() >= ATTACHED_SLICE;
                    if self.flow.hosted && (is_long || interpreter::is_wanted()) {
                        // Native stages run no bytecode, which is where Python lets other threads have a turn.
                        py.detach(interpreter::wait_until_taken);
                        attached = Instant::now();
                    }
                    py.check_signals()?;
                }
                Status::Parked(due_ns) if wait => {
                    self.wait(py, due_ns)?;
                    attached = Instant::now();
                }
                status => return Ok(turn_status(status)),
            }
        }
    }

    fn run_slice(&self, until_output: bool) -> Option<Status> {
        let started = Instant::now();
        loop {
            match self.flow.run_turn(false, until_output) {
                Some(Status::Again) if started.elapsed() < DETACHED_SLICE => {}
                status => return status,
            }
        }
    }

    /// The first wait only creates the wake pipe, to save the system calls in flows that never wait. A wake-up before
    /// that reached nothing, so the flow runs another turn before the thread sleeps.
    fn wait(&self, py: Python<'_>, due_ns: Option<u64>) -> PyResult<()> {
        let Some(signal) = self.signal.get() else {
            self.signal()?;
            return Ok(());
        };
        let clock = self.flow.clock();
        // A manual clock does not move by itself: advancing it sends a wake-up.
        let left = match due_ns {
            Some(due) if !clock.is_manual() => Some(due.saturating_sub(self.flow.now_ns())),
            _ => None,
        };
        let mut heard = Ok(());
        StayOnExit::around(|| {
            py.detach(|| {
                signal.wait(left, || {
                    heard = Python::attach(|py| py.check_signals());
                    heard.is_err()
                })
            })
        });
        heard?;
        py.check_signals()
    }

    /// Runs until the flow parks or is over, and collects its outputs.
    pub fn drive_ready(&self, py: Python<'_>, out: &Bound<'_, PyList>) -> PyResult<TurnStatus> {
        let mut taken = VecDeque::new();
        loop {
            let status = self.drive_turns(py, false, false)?;
            self.flow.take_output(&mut taken, usize::MAX);
            for mut element in taken.drain(..) {
                out.append(self.to_python(py, &mut element)?)?;
            }
            if matches!(status, TurnStatus::Parked | TurnStatus::Over) {
                return Ok(status);
            }
        }
    }

    pub fn to_python<'py>(&self, py: Python<'py>, element: &mut Element) -> PyResult<Bound<'py, PyAny>> {
        let pointer = companion(py, Symbols::get(py)?, element, &self.node_context)?;
        // SAFETY: a live object that the element's companion owns.
        Ok(unsafe { Bound::from_borrowed_ptr(py, pointer) })
    }
}

pub fn turn_status(status: Status) -> TurnStatus {
    match status {
        Status::Over => TurnStatus::Over,
        Status::Output => TurnStatus::Output,
        Status::Again => TurnStatus::Again,
        Status::Parked(_) => TurnStatus::Parked,
    }
}

pub fn busy() -> PyErr {
    PyRuntimeError::new_err("the flow is already being driven by workers, another thread or a component")
}
