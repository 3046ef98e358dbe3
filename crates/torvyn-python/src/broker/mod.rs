//! Edges that a NATS server carries: their connection and their two ends, for the carrier in Python.

pub mod input;
pub mod output;

use std::path::PathBuf;
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
    #[pyo3(signature = (
        addresses, user=None, password=None, token=None, nkey=None, creds=None, ca_file=None, client_certificate=None,
    ))]
    // Arguments of one call in Python.
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        addresses: Vec<String>,
        user: Option<String>,
        password: Option<String>,
        token: Option<String>,
        nkey: Option<String>,
        creds: Option<String>,
        ca_file: Option<PathBuf>,
        client_certificate: Option<(PathBuf, PathBuf)>,
    ) -> PyResult<Self> {
        let credentials = Credentials { user, password, token, nkey, creds, ca_file, client_certificate };
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

    /// What the server does not allow, in its words.
    #[getter]
    fn denial(&self) -> Option<&str> {
        self.0.denial()
    }

    fn close(&self) {
        self.0.close();
    }
}

/// The public key of an nkey, and its signature. None for what is no seed.
#[pyfunction]
pub fn nkey_sign(seed: &str, nonce: &[u8]) -> Option<(String, Vec<u8>)> {
    torvyn_broker::sign(seed, nonce)
}
