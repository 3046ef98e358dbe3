//! The manual clock of the test kit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use torvyn_reactor::{Clock, Flow};

use crate::lock::lock;

#[pyclass(frozen, subclass, module = "torvyn._native")]
pub struct ManualClock {
    time_ns: Arc<AtomicU64>,
    /// The flows that use this clock: advancing it wakes them, because nothing else would.
    flows: Mutex<Vec<Weak<Flow>>>,
}

impl ManualClock {
    pub fn clock(&self) -> Clock {
        Clock::manual(self.time_ns.clone())
    }

    pub fn watch(&self, flow: &Arc<Flow>) {
        let mut flows = lock(&self.flows);
        flows.retain(|flow| flow.strong_count() > 0);
        flows.push(Arc::downgrade(flow));
    }
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start_ns=1_000_000_000))]
    fn new(start_ns: u64) -> Self {
        Self { time_ns: Arc::new(AtomicU64::new(start_ns)), flows: Mutex::default() }
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.time_ns.load(Ordering::Acquire)
    }

    fn advance_ns(&self, nanos: u64) {
        self.time_ns.fetch_add(nanos, Ordering::AcqRel);
        let flows = lock(&self.flows).clone();
        flows.iter().filter_map(Weak::upgrade).for_each(|flow| flow.wake());
    }
}
