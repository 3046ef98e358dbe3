//! Edges that a NATS server carries: their connection and their two ends, for the carrier in Python.

pub mod input;
pub mod output;

use std::time::Duration;

use pyo3::prelude::*;
use torvyn_broker::{Connection, Credentials};

use crate::error::NativeError;
use crate::interpreter;

/// A connection that is established again for ever.
#[pyclass(frozen, module = "torvyn._native")]
pub struct NatsClient(pub Connection);

#[pymethods]
impl NatsClient {
    /// Connects, without waiting for it.
    #[new]
    #[pyo3(signature = (addresses, user=None, password=None, token=None))]
    fn new(
        py: Python<'_>,
        addresses: Vec<String>,
        user: Option<String>,
        password: Option<String>,
        token: Option<String>,
    ) -> PyResult<Self> {
        let credentials = Credentials { user, password, token };
        let opened = interpreter::detached(py, move || Connection::open(&addresses, credentials));
        let failed =
            |error: torvyn_broker::ConnectionError| NativeError::new_err(("address", error.to_string()));
        opened.map(Self).map_err(failed)
    }

    /// False if there is no connection after this time.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        let connection = self.0.clone();
        interpreter::detached(py, move || connection.wait(Duration::from_secs_f64(timeout_s)))
    }

    #[getter]
    fn is_connected(&self) -> bool {
        self.0.is_connected()
    }

    fn close(&self) {
        self.0.close();
    }
}
