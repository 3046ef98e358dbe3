//! The hand-driven clock of the test kit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use torvyn_reactor::Clock;

#[pyclass(frozen, module = "torvyn._native")]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub fn clock(&self) -> Clock {
        Clock::manual(self.0.clone())
    }
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start_ns=1_000_000_000))]
    fn new(start_ns: u64) -> Self {
        Self(Arc::new(AtomicU64::new(start_ns)))
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn advance_ns(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::AcqRel);
    }
}
