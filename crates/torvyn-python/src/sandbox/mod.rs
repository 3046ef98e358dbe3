//! `torvyn-sandbox` for Python: compiles components and starts guests. The process has one sandbox.

pub mod details;
mod guest;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use torvyn_sandbox::cache::Outcome;
use torvyn_sandbox::{
    Capability, Denials, FlowInfo, Grants, Instance, Limits, Sandbox, SandboxError, SharedInstance,
};
use torvyn_stream::StageError;

use crate::error::NativeError;
use crate::flow::report::kind_name;
use crate::lock::lock;
use crate::sandbox::details::Words;
use crate::sandbox::guest::{SandboxGuest, audit_callback, print_callback, seconds};

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
    /// Links code from `precompile`. The code runs unchecked, so it must come from a process of ours. `role` selects
    /// one of several roles.
    #[new]
    #[pyo3(signature = (code, counts_fuel=false, role=None))]
    fn new(py: Python<'_>, code: &[u8], counts_fuel: bool, role: Option<&str>) -> PyResult<Self> {
        // SAFETY: `torvyn._sandbox.compiler` passes what its own child process compiled, or what came with an
        // artifact that a trusted key has signed.
        let made = py.detach(|| unsafe {
            torvyn_sandbox::CompiledComponent::from_code(&SANDBOX, code, counts_fuel, role)
        });
        made.map(|compiled| Self(Arc::new(compiled))).map_err(|error| sandbox_error(&error))
    }

    /// Compiles without linking, in a process with limits.
    #[staticmethod]
    #[pyo3(signature = (wasm, counts_fuel=false, target=None))]
    fn precompile<'py>(
        py: Python<'py>,
        wasm: &[u8],
        counts_fuel: bool,
        target: Option<&str>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| torvyn_sandbox::precompile(wasm, counts_fuel, target));
        made.map(|code| PyBytes::new(py, &code)).map_err(|error| sandbox_error(&error))
    }

    /// Identifies the engine whose code for a target this build can load.
    #[staticmethod]
    fn engine_id(target: &str) -> PyResult<String> {
        torvyn_sandbox::engine_id(target).map_err(|error| sandbox_error(&error))
    }

    /// The component from the cache; None if the cache does not have it.
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

    /// Stores code from `precompile` in the cache.
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

    /// Whether it has `snapshot` and `restore`.
    #[getter]
    fn has_state(&self) -> bool {
        self.0.description.has_state()
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

    /// The capabilities that its imports need.
    #[getter]
    fn capabilities(&self) -> Vec<&'static str> {
        self.0.description.capabilities()
    }

    /// `hit` if it came from the cache, `miss` if it was compiled now.
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

    /// Instantiates the guest and calls `init`. `printer(channel, text, is_granted)` receives every line the guest
    /// prints, `auditor(kind, request, count, suppressed)` the notable denials. With a seed, clocks and random numbers
    /// derive from it.
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
            denials: Arc::new(Denials::new(audit_callback(auditor))),
            printer: print_callback(printer),
            instance_slot: SharedInstance::default(),
            health: Arc::default(),
        };
        let setup = guest.setup(FlowInfo::default());
        let instance = py.detach(|| Instance::start(&setup)).map_err(guest_error)?;
        guest.health.note_memory(Some(&instance));
        *lock(&guest.instance_slot) = Some(instance);
        Ok(guest)
    }
}

fn capability(text: &str, folder: &Path) -> PyResult<Capability> {
    Capability::parse(text, folder).map_err(|error| PyValueError::new_err(error.reason))
}
