//! The border of `torvyn_sandbox`: wasm in, descriptions and stages out. One sandbox serves the process.

pub mod details;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use torvyn_sandbox::cache::Outcome;
use torvyn_sandbox::{
    Auditor, Capability, Channel, Denial, Denials, FlowInfo, Grants, GuestStage, Health, Instance, Limits,
    Line, Printer, Sandbox, SandboxError, Setup, SharedInstance,
};
use torvyn_stream::StageError;

use crate::component::native_stage::NativeStage;
use crate::error::NativeError;
use crate::flow::report::kind_name;
use crate::sandbox::details::Words;

static SANDBOX: LazyLock<Arc<Sandbox>> = LazyLock::new(|| Sandbox::hosted(Arc::new(Words)));

fn sandbox_error(error: &SandboxError) -> PyErr {
    let kind = match error {
        SandboxError::Engine(_) => "engine",
        SandboxError::Invalid(_) => "invalid",
        SandboxError::TooComplex(_) => "too-complex",
        SandboxError::CoreModule => "core-module",
        SandboxError::NoRole { .. } | SandboxError::SeveralRoles { .. } => "role",
        SandboxError::Import { .. } => "import",
        SandboxError::Contract { .. } => "contract",
        SandboxError::Grant(_) => "grant",
        SandboxError::Cache(_) => "cache",
    };
    NativeError::new_err((kind, error.to_string()))
}

fn guest_error(error: StageError) -> PyErr {
    NativeError::new_err((kind_name(error.kind), error.message))
}

/// A component, compiled and linked.
#[pyclass(frozen, module = "torvyn._native")]
pub struct CompiledComponent(Arc<torvyn_sandbox::CompiledComponent>);

#[pymethods]
impl CompiledComponent {
    /// Links code that `precompile` made in a process with limits, and nobody else: it is run as it is. `role` is for a
    /// component that has several.
    #[new]
    #[pyo3(signature = (code, counts_fuel=false, role=None))]
    fn new(py: Python<'_>, code: &[u8], counts_fuel: bool, role: Option<&str>) -> PyResult<Self> {
        // SAFETY: `torvyn.sandbox.compile_cache` hands over what its own child has compiled.
        let made = py.detach(|| unsafe {
            torvyn_sandbox::CompiledComponent::from_code(&SANDBOX, code, counts_fuel, role)
        });
        made.map(|compiled| Self(Arc::new(compiled))).map_err(|error| sandbox_error(&error))
    }

    /// Compiled code as bytes, without linking it: the work of a process with limits.
    #[staticmethod]
    #[pyo3(signature = (wasm, counts_fuel=false))]
    fn precompile<'py>(py: Python<'py>, wasm: &[u8], counts_fuel: bool) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| torvyn_sandbox::precompile(wasm, counts_fuel));
        made.map(|code| PyBytes::new(py, &code)).map_err(|error| sandbox_error(&error))
    }

    /// What was compiled before; None when the cache has nothing that it would load.
    #[staticmethod]
    #[pyo3(signature = (wasm, cache_dir, counts_fuel=false, role=None))]
    fn load(
        py: Python<'_>,
        wasm: &[u8],
        cache_dir: PathBuf,
        counts_fuel: bool,
        role: Option<&str>,
    ) -> PyResult<Option<Self>> {
        let found = py.detach(|| {
            torvyn_sandbox::CompiledComponent::load(&SANDBOX, wasm, &cache_dir, counts_fuel, role)
        });
        found
            .map(|found| found.map(|compiled| Self(Arc::new(compiled))))
            .map_err(|error| sandbox_error(&error))
    }

    /// Puts what `precompile` made into the cache.
    #[staticmethod]
    fn remember(
        py: Python<'_>,
        wasm: &[u8],
        code: &[u8],
        cache_dir: PathBuf,
        counts_fuel: bool,
    ) -> PyResult<()> {
        let write = || torvyn_sandbox::remember(&SANDBOX, wasm, code, &cache_dir, counts_fuel);
        py.detach(write).map_err(|error| sandbox_error(&error))
    }

    #[getter]
    fn role(&self) -> &'static str {
        self.0.description.role.name()
    }

    /// The role's interface, with its version.
    #[getter]
    fn interface(&self) -> &'static str {
        self.0.description.role.interface()
    }

    #[getter]
    fn world(&self) -> &'static str {
        self.0.description.world()
    }

    #[getter]
    fn imports(&self) -> Vec<String> {
        self.0.description.imports.clone()
    }

    #[getter]
    fn exports(&self) -> Vec<String> {
        self.0.description.exports.clone()
    }

    /// What its imports are there for.
    #[getter]
    fn capabilities(&self) -> Vec<&'static str> {
        self.0.description.capabilities()
    }

    /// `hit` for one from the cache, `miss` for one that was compiled now.
    #[getter]
    fn cache(&self) -> &'static str {
        match self.0.outcome {
            Outcome::Hit => "hit",
            Outcome::Miss | Outcome::Refused => "miss",
        }
    }

    #[getter]
    fn compile_s(&self) -> f64 {
        self.0.compile_time.as_secs_f64()
    }

    /// Whether a grant covers a request; relative paths are resolved in `folder`. Raises `ValueError` for text that is
    /// not a capability.
    #[staticmethod]
    fn capability_covers(grant: &str, request: &str, folder: PathBuf) -> PyResult<bool> {
        Ok(capability(grant, &folder)?.covers(&capability(request, &folder)?))
    }

    /// Instantiates and calls `init`. `printer(channel, text, is_granted)` gets every line the guest prints,
    /// `auditor(kind, asked, count, suppressed)` the denials that are worth reading. With a seed, clocks and random
    /// numbers follow from it.
    #[pyo3(signature = (config, *, max_memory_bytes, call_timeout_s, init_timeout_s, fuel, seed, grants, printer, auditor))]
    #[allow(clippy::too_many_arguments)]
    fn start(
        &self,
        py: Python<'_>,
        config: String,
        max_memory_bytes: u64,
        call_timeout_s: f64,
        init_timeout_s: f64,
        fuel: Option<u64>,
        seed: Option<u64>,
        grants: Vec<String>,
        printer: Py<PyAny>,
        auditor: Py<PyAny>,
    ) -> PyResult<SandboxGuest> {
        // The manifest has made all paths absolute.
        let capabilities =
            grants.iter().map(|text| capability(text, Path::new("/"))).collect::<PyResult<_>>()?;
        let guest = SandboxGuest {
            compiled: self.0.clone(),
            config,
            limits: Limits {
                memory_bytes: max_memory_bytes,
                call_timeout: seconds(call_timeout_s)?,
                init_timeout: seconds(init_timeout_s)?,
                fuel,
                ..Limits::default()
            },
            grants: Arc::new(Grants { capabilities, seed }),
            denials: Arc::new(Denials::new(auditing(auditor))),
            printer: printing(printer),
            instance_slot: SharedInstance::default(),
            health: Arc::default(),
        };
        let setup = guest.setup(FlowInfo::default());
        let instance = py.detach(|| Instance::start(&setup)).map_err(guest_error)?;
        *guest.instance_slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(instance);
        Ok(guest)
    }
}

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A guest that was started. Its instance goes into the flow with `stage` and comes back when the flow is over.
#[pyclass(frozen, module = "torvyn._native")]
pub struct SandboxGuest {
    compiled: Arc<torvyn_sandbox::CompiledComponent>,
    config: String,
    limits: Limits,
    grants: Arc<Grants>,
    denials: Arc<Denials>,
    printer: Printer,
    instance_slot: SharedInstance,
    health: Arc<Health>,
}

impl SandboxGuest {
    fn setup(&self, facts: FlowInfo) -> Setup {
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
    /// The guest as a stage of one flow. `deadline_s` is what is left of the flow's time.
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
        Ok(NativeStage(Mutex::new(Some(Box::new(stage)))))
    }

    /// Calls the guest's `teardown`, if its instance has come back, and lets go of it.
    fn teardown(&self, py: Python<'_>, timeout_s: f64) -> PyResult<()> {
        let instance = self.instance_slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(instance) = instance else { return Ok(()) };
        let timeout = seconds(timeout_s)?;
        py.detach(|| instance.teardown(&self.printer, timeout)).map_err(guest_error)
    }

    /// Calls that did not come back, and replacements that did not start.
    #[getter]
    fn traps(&self) -> u64 {
        self.health.traps.load(Ordering::Relaxed)
    }

    /// Instances that were let go with all they held.
    #[getter]
    fn state_lost(&self) -> u64 {
        self.health.state_lost.load(Ordering::Relaxed)
    }

    /// What making the replacements took, in nanoseconds.
    #[getter]
    fn replace_ns(&self) -> u64 {
        self.health.replace_ns.load(Ordering::Relaxed)
    }

    /// Instances that took the place of one that trapped.
    #[getter]
    fn replaced(&self) -> u64 {
        self.health.replaced.load(Ordering::Relaxed)
    }

    /// How often each kind of capability was denied; kinds that never were are left out.
    #[getter]
    fn denied(&self) -> BTreeMap<&'static str, u64> {
        self.denials.counts().into_iter().map(|(kind, count)| (kind.name(), count)).collect()
    }

    /// Calls refused to a guest that trapped too often.
    #[getter]
    fn refused(&self) -> u64 {
        self.health.refused.load(Ordering::Relaxed)
    }
}

/// Runs after the guest's call, inside the flow's turn, like a Python stage would.
fn printing(printer: Py<PyAny>) -> Printer {
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
fn auditing(auditor: Py<PyAny>) -> Auditor {
    Arc::new(move |denial: Denial| {
        Python::attach(|py| {
            let told = (denial.kind.name(), denial.asked, denial.count, denial.suppressed);
            if let Err(error) = auditor.call1(py, told) {
                error.write_unraisable(py, None);
            }
        });
    })
}

fn capability(text: &str, folder: &Path) -> PyResult<Capability> {
    Capability::parse(text, folder).map_err(|error| PyValueError::new_err(error.reason))
}
