//! A compiled component: checked against the contract, linked, and ready to be instantiated any number of times.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

use crate::batch_contract::{STATE, batch_interface};
use crate::compile::cache::{self, Cache, Outcome};
use crate::compile::complexity;
use crate::compile::description::Description;
use crate::compile::engine::{RuntimeEngine, SLOT_BYTES, Sandbox, compiler};
use crate::compile::signature;
use crate::contract::{LIFECYCLE, Role};
use crate::fault::SandboxError;
use crate::host::Host;
use crate::host::limits::Limits;

pub struct CompiledComponent {
    pub description: Description,
    pub outcome: Outcome,
    pub compile_time: Duration,
    pub(crate) sandbox: Arc<Sandbox>,
    counts_fuel: bool,
    on_demand: LinkedComponent,
    /// Linked for the first guest that uses the pool. `None` inside: there is no pool, or the component does not fit.
    pooled: OnceLock<Option<LinkedComponent>>,
}

/// A component on one engine, ready to be instantiated.
pub(crate) struct LinkedComponent {
    component: Component,
    /// For guests that only call functions that return at once.
    sync_linker: InstancePre<Host>,
    /// For guests that may wait in the host, if the engine has stacks for them.
    async_linker: Option<InstancePre<Host>>,
    pub exports: Exports,
    pub is_pooled: bool,
}

/// The exported functions, looked up once.
pub(crate) struct Exports {
    pub lifecycle: Option<[ComponentExportIndex; 2]>,
    /// The role's functions, in the order of `functions`.
    pub role: Vec<ComponentExportIndex>,
    /// The role's batch function.
    pub batch: Option<ComponentExportIndex>,
    /// `snapshot` and `restore`.
    pub state: Option<[ComponentExportIndex; 2]>,
}

/// The functions of a role's interface; the one that takes elements comes first.
pub(crate) fn functions(role: Role) -> &'static [&'static str] {
    match role {
        Role::Source | Role::PolledSource => &["pull", "notify-backpressure"],
        Role::Processor => &["process"],
        Role::Expander => &["process", "flush"],
        Role::Filter | Role::Guard => &["evaluate"],
        Role::Router => &["route"],
        Role::Aggregator => &["ingest", "flush"],
        Role::Sink => &["push", "complete"],
    }
}

impl CompiledComponent {
    /// Compiles the component, or loads it from the cache in `folder`. Text (`.wat`) is not accepted. `role` selects
    /// one of several roles.
    pub fn new(
        sandbox: &Arc<Sandbox>,
        wasm: &[u8],
        folder: Option<&Path>,
        counts_fuel: bool,
        role: Option<&str>,
    ) -> Result<Self, SandboxError> {
        let started = Instant::now();
        let runtime = sandbox.runtime(counts_fuel)?;
        let cache = folder.map(Cache::open).transpose()?;
        let made = make(runtime, wasm, cache.as_ref())?;
        Self::of(sandbox, made, counts_fuel, role, started)
    }

    /// Loads the component from the cache in `folder`; None if the cache does not have it.
    pub fn load(
        sandbox: &Arc<Sandbox>,
        wasm: &[u8],
        folder: &Path,
        counts_fuel: bool,
        role: Option<&str>,
    ) -> Result<Option<Self>, SandboxError> {
        let started = Instant::now();
        let runtime = sandbox.runtime(counts_fuel)?;
        match Cache::open(folder)?.load(&runtime.engine, wasm) {
            (Some(component), outcome) => {
                Self::of(sandbox, (component, outcome), counts_fuel, role, started).map(Some)
            }
            (None, _) => Ok(None),
        }
    }

    /// The same from code that `precompile` made.
    ///
    /// # Safety
    ///
    /// The code is run as it is: it must come from `precompile`, of an engine of this version, and nobody may have
    /// changed it since.
    #[allow(unsafe_code)]
    pub unsafe fn from_code(
        sandbox: &Arc<Sandbox>,
        code: &[u8],
        counts_fuel: bool,
        role: Option<&str>,
    ) -> Result<Self, SandboxError> {
        let started = Instant::now();
        let runtime = sandbox.runtime(counts_fuel)?;
        // SAFETY: the caller's promise.
        let loaded = unsafe { Component::deserialize(&runtime.engine, code) };
        let component = loaded.map_err(|error| SandboxError::Engine(format!("{error:#}")))?;
        Self::of(sandbox, (component, Outcome::Miss), counts_fuel, role, started)
    }

    fn of(
        sandbox: &Arc<Sandbox>,
        (component, outcome): (Component, Outcome),
        counts_fuel: bool,
        role: Option<&str>,
        started: Instant,
    ) -> Result<Self, SandboxError> {
        let runtime = sandbox.runtime(counts_fuel)?;
        let description = Description::of(&runtime.engine, &component, role)?;
        let mut on_demand = LinkedComponent::new(component, &runtime.sync_linker, &description)?;
        on_demand.async_linker = Some(prelink(&runtime.async_linker, &on_demand.component)?);
        signature::check(&on_demand.sync_linker, &description)?;
        Ok(Self {
            description,
            outcome,
            compile_time: started.elapsed(),
            sandbox: sandbox.clone(),
            counts_fuel,
            on_demand,
            pooled: OnceLock::new(),
        })
    }

    /// The linked component for a guest with these limits.
    pub(crate) fn linked(&self, waits: bool, limits: &Limits) -> &LinkedComponent {
        let fits = !self.counts_fuel && !waits && limits.memory_bytes <= SLOT_BYTES;
        fits.then(|| self.pooled()).flatten().unwrap_or(&self.on_demand)
    }

    /// The component on the engine that maps memory for each instance.
    pub(crate) fn on_demand(&self) -> &LinkedComponent {
        &self.on_demand
    }

    fn pooled(&self) -> Option<&LinkedComponent> {
        let link = || {
            let runtime = self.sandbox.pooled()?;
            let component = cache::moved(&self.on_demand.component, &runtime.engine).ok()?;
            let linked = LinkedComponent::new(component, &runtime.sync_linker, &self.description).ok()?;
            Some(LinkedComponent { is_pooled: true, ..linked })
        };
        self.pooled.get_or_init(link).as_ref()
    }

    pub(crate) fn runtime(&self, linked: &LinkedComponent) -> Result<&RuntimeEngine, SandboxError> {
        match linked.is_pooled.then(|| self.sandbox.pooled()).flatten() {
            Some(runtime) => Ok(runtime),
            None => self.sandbox.runtime(self.counts_fuel),
        }
    }
}

impl LinkedComponent {
    fn new(
        component: Component,
        linker: &Linker<Host>,
        description: &Description,
    ) -> Result<Self, SandboxError> {
        let sync_linker = prelink(linker, &component)?;
        let exports = Exports::of(&component, description)?;
        Ok(Self { component, sync_linker, async_linker: None, exports, is_pooled: false })
    }

    pub fn pre(&self, waits: bool) -> &InstancePre<Host> {
        self.async_linker.as_ref().filter(|_| waits).unwrap_or(&self.sync_linker)
    }
}

fn prelink(linker: &Linker<Host>, component: &Component) -> Result<InstancePre<Host>, SandboxError> {
    let linked = linker.instantiate_pre(component);
    linked.map_err(|error| SandboxError::Import { import: format!("{error:#}") })
}
/// Compiles to bytes, which another process can store and load. The code of a `target` runs on all of its machines.
pub fn precompile(wasm: &[u8], counts_fuel: bool, target: Option<&str>) -> Result<Vec<u8>, SandboxError> {
    check(wasm)?;
    let engine = compiler(counts_fuel, target)?;
    engine.precompile_component(wasm).map_err(|error| SandboxError::Invalid(format!("{error:#}")))
}

/// Identifies the engine whose code for a target can be loaded by this build: its version and its settings.
pub fn engine_id(target: &str) -> Result<String, SandboxError> {
    let engine = compiler(false, Some(target))?;
    Ok(blake3::Hash::from_bytes(cache::version(&engine)).to_hex().to_string())
}

/// Stores the code that `precompile` made from this wasm in the cache in `folder`.
pub fn remember(
    sandbox: &Sandbox,
    wasm: &[u8],
    code: &[u8],
    folder: &Path,
    counts_fuel: bool,
) -> Result<(), SandboxError> {
    let engine = &sandbox.runtime(counts_fuel)?.engine;
    Ok(Cache::open(folder)?.store(engine, wasm, code)?)
}

fn make(
    runtime: &RuntimeEngine,
    wasm: &[u8],
    cache: Option<&Cache>,
) -> Result<(Component, Outcome), SandboxError> {
    check(wasm)?;
    let (found, outcome) = cache.map_or((None, Outcome::Miss), |cache| cache.load(&runtime.engine, wasm));
    if let Some(component) = found {
        return Ok((component, outcome));
    }
    let component = Component::from_binary(&runtime.engine, wasm)
        .map_err(|error| SandboxError::Invalid(format!("{error:#}")))?;
    if let Some(cache) = cache {
        let code = component.serialize().map_err(|error| SandboxError::Engine(error.to_string()))?;
        cache.store(&runtime.engine, wasm, &code)?;
    }
    Ok((component, outcome))
}

/// The first bytes tell a component from a core module, for which the compiler's message would be confusing. The
/// component's complexity is checked before it is compiled.
fn check(wasm: &[u8]) -> Result<(), SandboxError> {
    match wasm.get(..8) {
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => Err(SandboxError::CoreModule),
        Some([0, b'a', b's', b'm', ..]) => complexity::check(wasm),
        _ => Err(SandboxError::Invalid("it does not start with the WebAssembly header".to_owned())),
    }
}

impl Exports {
    fn of(component: &Component, description: &Description) -> Result<Self, SandboxError> {
        let find = |interface: &str, function: &str| {
            let missing = || SandboxError::Contract {
                interface: interface.to_owned(),
                reason: format!("`{function}` is missing"),
            };
            let instance = component.get_export_index(None, interface).ok_or_else(missing)?;
            component.get_export_index(Some(&instance), function).ok_or_else(missing)
        };
        let lifecycle = match description.has_lifecycle {
            true => Some([find(LIFECYCLE, "init")?, find(LIFECYCLE, "teardown")?]),
            false => None,
        };
        let interface = description.role.interface();
        let role =
            functions(description.role).iter().map(|name| find(interface, name)).collect::<Result<_, _>>()?;
        let batch = match batch_interface(description.role) {
            Some((interface, name)) if description.has_batch() => Some(find(interface, name)?),
            _ => None,
        };
        let state = match description.has_state() {
            true => Some([find(STATE, "snapshot")?, find(STATE, "restore")?]),
            false => None,
        };
        Ok(Self { lifecycle, role, batch, state })
    }
}
