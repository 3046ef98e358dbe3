//! Worker threads in a Python process: attached only while a turn needs it, ended before the interpreter.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use torvyn_reactor::{Flow, Host, Pool};

struct PythonHost {
    /// Called when a component blocks a worker, with the key of the flow, the index of the node if known, and the thread's
    /// ident.
    on_blocked: Py<PyAny>,
}

impl Host for PythonHost {
    fn thread(&self, body: &mut (dyn FnMut() + Send)) {
        // One thread state for the life of the thread: later attaching only takes the lock.
        Python::attach(|py| py.detach(body));
    }

    fn attached(&self, body: &mut dyn FnMut()) {
        Python::attach(|_| body());
    }

    fn blocked(&self, flow: &Arc<Flow>, node: Option<usize>, thread: u64) {
        Python::attach(|py| {
            if let Err(error) = self.on_blocked.call1(py, (Arc::as_ptr(flow) as usize, node, thread)) {
                error.write_unraisable(py, Some(self.on_blocked.bind(py)));
            }
        });
    }
}

#[pyclass(frozen, module = "torvyn._native")]
pub struct Workers {
    pub pool: Arc<Pool>,
}

#[pymethods]
impl Workers {
    #[new]
    fn new(count: usize, on_blocked: Py<PyAny>) -> Self {
        Self { pool: Pool::start(count, Arc::new(PythonHost { on_blocked })) }
    }

    #[getter]
    fn count(&self) -> usize {
        self.pool.workers()
    }

    /// Ends the workers; returns how many did not end because a component blocks them.
    fn stop(&self, py: Python<'_>, timeout_s: f64) -> usize {
        let pool = self.pool.clone();
        py.detach(move || pool.stop(Duration::from_secs_f64(timeout_s)))
    }
}
