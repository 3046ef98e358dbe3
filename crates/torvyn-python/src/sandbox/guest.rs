//! A running guest: its stage in a flow, its teardown and its counters.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use torvyn_sandbox::{
    Auditor, Channel, CompiledComponent, Denial, Denials, FlowInfo, Grants, GuestStage, Health, Limits, Line,
    Printer, Setup, SharedInstance,
};

use crate::component::native_stage::NativeStage;
use crate::lock::lock;
use crate::sandbox::guest_error;

pub(super) fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A running guest. Its instance moves into the flow with `stage` and returns when the flow is over.
#[pyclass(frozen, module = "torvyn._native")]
pub struct SandboxGuest {
    pub(super) compiled: Arc<CompiledComponent>,
    pub(super) config: String,
    pub(super) limits: Limits,
    pub(super) grants: Arc<Grants>,
    pub(super) denials: Arc<Denials>,
    pub(super) printer: Printer,
    pub(super) instance_slot: SharedInstance,
    pub(super) health: Arc<Health>,
}

impl SandboxGuest {
    pub(super) fn setup(&self, facts: FlowInfo) -> Setup {
        Setup {
            compiled: self.compiled.clone(),
            config: self.config.clone(),
            limits: self.limits.clone(),
            grants: self.grants.clone(),
            denials: self.denials.clone(),
            facts,
            printer: self.printer.clone(),
        }
    }
}

#[pymethods]
impl SandboxGuest {
    /// The guest as a stage of one flow. `deadline_s` is the time left for the flow.
    fn stage(
        &self,
        ports: Vec<String>,
        flow_id: String,
        flow_name: String,
        trace_id: String,
        deadline_s: Option<f64>,
    ) -> PyResult<NativeStage> {
        let deadline = deadline_s.map(|left| seconds(left.max(0.0))).transpose()?;
        let facts = FlowInfo {
            flow_id,
            flow_name,
            trace_id,
            span_id: String::new(),
            deadline: deadline.map(|left| Instant::now() + left),
        };
        let mut stage = GuestStage::new(
            self.setup(facts.clone()),
            ports,
            self.instance_slot.clone(),
            self.health.clone(),
        );
        stage.set_flow(facts);
        Ok(NativeStage { stage: Mutex::new(Some(Box::new(stage))), is_carrier: false })
    }

    /// The guest's state, while it is not part of a running flow; None if it has none.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut slot = lock(&self.instance_slot);
        let Some(instance) = slot.as_mut() else { return Ok(None) };
        let state = py.detach(|| instance.snapshot(&self.printer)).map_err(guest_error)?;
        Ok(state.map(|state| PyBytes::new(py, &state)))
    }

    /// Gives the guest a state, before its flow starts.
    fn restore(&self, py: Python<'_>, state: Vec<u8>) -> PyResult<()> {
        let mut slot = lock(&self.instance_slot);
        let Some(instance) = slot.as_mut() else { return Ok(()) };
        py.detach(|| instance.restore(state, &self.printer)).map_err(guest_error)
    }

    /// Calls the guest's `teardown` if its instance has returned, and drops it.
    fn teardown(&self, py: Python<'_>, timeout_s: f64) -> PyResult<()> {
        let instance = lock(&self.instance_slot).take();
        let Some(instance) = instance else { return Ok(()) };
        let timeout = seconds(timeout_s)?;
        self.health.note_memory(None);
        py.detach(|| instance.teardown(&self.printer, timeout)).map_err(guest_error)
    }

    /// Calls that did not return, and replacements that did not start.
    #[getter]
    fn traps(&self) -> u64 {
        self.health.traps.load(Ordering::Relaxed)
    }

    /// Instances that were dropped with their state.
    #[getter]
    fn state_lost(&self) -> u64 {
        self.health.state_lost.load(Ordering::Relaxed)
    }

    /// The time that replacements took, in nanoseconds.
    #[getter]
    fn replace_ns(&self) -> u64 {
        self.health.replace_ns.load(Ordering::Relaxed)
    }

    /// Instances that replaced one that trapped.
    #[getter]
    fn replaced(&self) -> u64 {
        self.health.replaced.load(Ordering::Relaxed)
    }

    /// How often each kind of capability was denied; other kinds are left out.
    #[getter]
    fn denied(&self) -> BTreeMap<&'static str, u64> {
        self.denials.counts().into_iter().map(|(kind, count)| (kind.name(), count)).collect()
    }

    /// The linear memory of the instance after its last call; 0 while there is none.
    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.health.memory_bytes.load(Ordering::Relaxed)
    }

    /// Calls refused because the guest trapped too often.
    #[getter]
    fn refused(&self) -> u64 {
        self.health.refused.load(Ordering::Relaxed)
    }
}

/// Runs after the guest's call, inside the flow's turn, as a Python stage would.
pub(super) fn print_callback(printer: Py<PyAny>) -> Printer {
    Arc::new(move |line: Line| {
        let channel = match line.channel {
            Channel::Stdout => "stdout",
            Channel::Stderr => "stderr",
        };
        Python::attach(|py| {
            if let Err(error) = printer.call1(py, (channel, line.text, line.granted)) {
                error.write_unraisable(py, None);
            }
        });
    })
}

/// Runs after the guest's call, like the printer.
pub(super) fn audit_callback(auditor: Py<PyAny>) -> Auditor {
    Arc::new(move |denial: Denial| {
        Python::attach(|py| {
            let fields = (denial.kind.name(), denial.request, denial.count, denial.suppressed);
            if let Err(error) = auditor.call1(py, fields) {
                error.write_unraisable(py, None);
            }
        });
    })
}
