//! A compiled component: checked against the contract, linked, ready to be instantiated any number of times.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

use crate::cache::{Cache, Outcome};
use crate::contract::{LIFECYCLE, Role};
use crate::describe::Description;
use crate::engine::{Sandbox, Workshop};
use crate::fault::SandboxError;
use crate::host::Host;
use crate::signature;

pub struct Compiled {
    pub description: Description,
    pub outcome: Outcome,
    pub compile_time: Duration,
    pub(crate) sandbox: Arc<Sandbox>,
    /// For guests that can only call functions that return at once, and for those that may wait in the host.
    prompt: InstancePre<Host>,
    patient: InstancePre<Host>,
    pub(crate) exports: Exports,
    counts_fuel: bool,
}

/// Where the functions are, looked up once.
pub(crate) struct Exports {
    pub lifecycle: Option<[ComponentExportIndex; 2]>,
    /// The role's functions, in the order of `functions`.
    pub role: Vec<ComponentExportIndex>,
}

/// The functions of a role's interface, the one that is called for elements first.
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

impl Compiled {
    /// Compiles, or loads from the cache in `folder`. Text (`.wat`) is not read. A component of several roles is taken
    /// in the one that `role` names.
    pub fn new(
        sandbox: &Arc<Sandbox>,
        wasm: &[u8],
        folder: Option<&Path>,
        counts_fuel: bool,
        role: Option<&str>,
    ) -> Result<Self, SandboxError> {
        let started = Instant::now();
        let workshop = sandbox.workshop(counts_fuel)?;
        let cache = folder.map(Cache::open).transpose()?;
        let made = make(workshop, wasm, cache.as_ref())?;
        Self::of(sandbox, made, counts_fuel, role, started)
    }

    /// The same from the cache in `folder` only; nothing when it has no code that it would load.
    pub fn load(
        sandbox: &Arc<Sandbox>,
        wasm: &[u8],
        folder: &Path,
        counts_fuel: bool,
        role: Option<&str>,
    ) -> Result<Option<Self>, SandboxError> {
        let started = Instant::now();
        let workshop = sandbox.workshop(counts_fuel)?;
        match Cache::open(folder)?.load(&workshop.engine, wasm) {
            (Some(component), outcome) => {
                Self::of(sandbox, (component, outcome), counts_fuel, role, started).map(Some)
            }
            (None, _) => Ok(None),
        }
    }

    fn of(
        sandbox: &Arc<Sandbox>,
        (component, outcome): (Component, Outcome),
        counts_fuel: bool,
        role: Option<&str>,
        started: Instant,
    ) -> Result<Self, SandboxError> {
        let workshop = sandbox.workshop(counts_fuel)?;
        let description = Description::of(&workshop.engine, &component, role)?;
        let prelink = |linker: &Linker<Host>| {
            let linked = linker.instantiate_pre(&component);
            linked.map_err(|error| SandboxError::Import { import: format!("{error:#}") })
        };
        let (prompt, patient) = (prelink(&workshop.prompt)?, prelink(&workshop.patient)?);
        let exports = Exports::of(&component, &description)?;
        signature::check(&prompt, &description)?;
        Ok(Self {
            description,
            outcome,
            compile_time: started.elapsed(),
            sandbox: sandbox.clone(),
            prompt,
            patient,
            exports,
            counts_fuel,
        })
    }

    pub(crate) fn pre(&self, waits: bool) -> &InstancePre<Host> {
        if waits { &self.patient } else { &self.prompt }
    }

    pub(crate) fn workshop(&self) -> Result<&Workshop, SandboxError> {
        self.sandbox.workshop(self.counts_fuel)
    }
}

/// Compiled code as bytes, for a cache: what a process with limits does for one without.
pub fn precompile(sandbox: &Sandbox, wasm: &[u8], counts_fuel: bool) -> Result<Vec<u8>, SandboxError> {
    check(wasm)?;
    let engine = &sandbox.workshop(counts_fuel)?.engine;
    engine.precompile_component(wasm).map_err(|error| SandboxError::Invalid(format!("{error:#}")))
}

/// Puts what `precompile` made of this wasm into the cache in `folder`.
pub fn remember(
    sandbox: &Sandbox,
    wasm: &[u8],
    code: &[u8],
    folder: &Path,
    counts_fuel: bool,
) -> Result<(), SandboxError> {
    let engine = &sandbox.workshop(counts_fuel)?.engine;
    Ok(Cache::open(folder)?.store(engine, wasm, code)?)
}

fn make(
    workshop: &Workshop,
    wasm: &[u8],
    cache: Option<&Cache>,
) -> Result<(Component, Outcome), SandboxError> {
    check(wasm)?;
    let (found, outcome) = cache.map_or((None, Outcome::Miss), |cache| cache.load(&workshop.engine, wasm));
    if let Some(component) = found {
        return Ok((component, outcome));
    }
    let component = Component::from_binary(&workshop.engine, wasm)
        .map_err(|error| SandboxError::Invalid(format!("{error:#}")))?;
    if let Some(cache) = cache {
        let code = component.serialize().map_err(|error| SandboxError::Engine(error.to_string()))?;
        cache.store(&workshop.engine, wasm, &code)?;
    }
    Ok((component, outcome))
}

/// The first bytes tell a component from a core module, for which the compiler's complaint would be a riddle.
fn check(wasm: &[u8]) -> Result<(), SandboxError> {
    match wasm.get(..8) {
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => Err(SandboxError::CoreModule),
        Some([0, b'a', b's', b'm', ..]) => Ok(()),
        _ => Err(SandboxError::Invalid("it does not begin like one".to_owned())),
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
        Ok(Self { lifecycle, role })
    }
}
