//! Wakes an event loop through one readable descriptor, for any number of flows and stages.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use torvyn_reactor::WakePipe;
use torvyn_reactor::offload::Notify;

use crate::lock::lock;

#[derive(Debug)]
struct Line {
    signal: WakePipe,
    ready: Mutex<Vec<u64>>,
}

struct TokenNotifier {
    line: Arc<Line>,
    token: u64,
}

impl Notify for TokenNotifier {
    fn notify(&self) {
        lock(&self.line.ready).push(self.token);
        self.line.signal.notify();
    }
}

#[pyclass(frozen, module = "torvyn._native", name = "Waker")]
pub struct PyWaker {
    line: Arc<Line>,
}

impl PyWaker {
    pub fn notifier(&self, token: u64) -> Arc<dyn Notify> {
        Arc::new(TokenNotifier { line: self.line.clone(), token })
    }
}

#[pymethods]
impl PyWaker {
    #[new]
    fn new() -> PyResult<Self> {
        let line = Line { signal: WakePipe::new()?, ready: Mutex::default() };
        Ok(Self { line: Arc::new(line) })
    }

    fn fileno(&self) -> i32 {
        self.line.signal.fd()
    }

    /// The tokens that were notified since the last call.
    fn take(&self) -> Vec<u64> {
        self.line.signal.clear();
        std::mem::take(&mut *lock(&self.line.ready))
    }
}
