//! The sandbox: engines, linkers and tickers, created on first use and shared by the whole process.

use std::sync::{Arc, OnceLock};

use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, Engine, PoolingAllocationConfig, WasmBacktraceDetails};

use crate::capabilities::wasi_audit;
use crate::fault::SandboxError;
use crate::guest::ticker::Ticker;
use crate::host::Host;
use crate::host::details::Translator;
use crate::host::imports;

/// The guest's stack. An interpreter in a guest stops deep recursion with its own stack, in its memory. This stack must
/// be large enough for that to happen first, or an exception there becomes a trap here. It must fit into the 2 MiB of a
/// thread or a fiber, together with the host's own calls.
const STACK_BYTES: usize = 1536 << 10;

/// Address space per memory. A memory that outgrows it moves, unless it is in the pool.
pub(crate) const SLOT_BYTES: u64 = 64 << 20;

/// Which engine a guest runs on. The compiled code of the first two is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineKind {
    /// Memories are slots of a pool. Creating and dropping an instance maps and unmaps nothing, which would stop every
    /// other core that runs this process: a guest that traps constantly does not slow down others.
    Pooled,
    /// Memories are mapped per instance: of any size, in any number.
    OnDemand,
    /// Like `OnDemand`, with code that counts its instructions. That slows down every call, so only guests that need it
    /// use it.
    Fuelled,
}

/// One engine with its linkers and its ticker.
pub struct RuntimeEngine {
    pub engine: Engine,
    pub ticker: Arc<Ticker>,
    /// For guests that only call functions that return at once.
    pub sync_linker: Linker<Host>,
    /// For guests that may wait in the host: their calls run on a fiber, with a timer. Empty if the engine has no
    /// stacks for them.
    pub async_linker: Linker<Host>,
    pub counts_fuel: bool,
}

#[derive(Default)]
pub struct Sandbox {
    /// `None` inside: this process may not reserve the pool's address space.
    pooled: OnceLock<Option<RuntimeEngine>>,
    on_demand: OnceLock<RuntimeEngine>,
    fuelled: OnceLock<RuntimeEngine>,
    timers: OnceLock<tokio::runtime::Runtime>,
    pub(crate) translator: Option<Arc<dyn Translator>>,
}

impl Sandbox {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A sandbox whose elements carry objects of a host language.
    pub fn hosted(translator: Arc<dyn Translator>) -> Arc<Self> {
        Arc::new(Self {
            pooled: OnceLock::new(),
            on_demand: OnceLock::new(),
            fuelled: OnceLock::new(),
            timers: OnceLock::new(),
            translator: Some(translator),
        })
    }

    /// The engine with the pool, if there can be one.
    pub(crate) fn pooled(&self) -> Option<&RuntimeEngine> {
        self.pooled.get_or_init(|| RuntimeEngine::new(EngineKind::Pooled).ok()).as_ref()
    }

    /// The engine for guests of any size.
    pub(crate) fn runtime(&self, counts_fuel: bool) -> Result<&RuntimeEngine, SandboxError> {
        let (place, kind) = match counts_fuel {
            true => (&self.fuelled, EngineKind::Fuelled),
            false => (&self.on_demand, EngineKind::OnDemand),
        };
        if let Some(made) = place.get() {
            return Ok(made);
        }
        let made = RuntimeEngine::new(kind).map_err(|error| SandboxError::Engine(error.to_string()))?;
        Ok(place.get_or_init(|| made))
    }

    /// The runtime that times calls which may wait in the host.
    pub(crate) fn timers(&self) -> Result<&tokio::runtime::Runtime, SandboxError> {
        if let Some(made) = self.timers.get() {
            return Ok(made);
        }
        let made = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("torvyn-timers")
            .enable_all()
            .build()
            .map_err(|error| SandboxError::Engine(error.to_string()))?;
        Ok(self.timers.get_or_init(|| made))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let pooled = self.pooled.get().and_then(Option::as_ref);
        for runtime in [pooled, self.on_demand.get(), self.fuelled.get()].into_iter().flatten() {
            runtime.ticker.stop();
        }
    }
}

impl RuntimeEngine {
    fn new(kind: EngineKind) -> wasmtime::Result<Self> {
        let engine = Engine::new(&config(kind))?;
        let mut sync_linker = Linker::new(&engine);
        imports::link(&mut sync_linker)?;
        wasmtime_wasi::p2::add_to_linker_sync(&mut sync_linker)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_sync(&mut sync_linker)?;
        wasi_audit::link(&mut sync_linker, false)?;
        let mut async_linker = Linker::new(&engine);
        if kind != EngineKind::Pooled {
            imports::link(&mut async_linker)?;
            wasmtime_wasi::p2::add_to_linker_async(&mut async_linker)?;
            wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut async_linker)?;
            wasi_audit::link(&mut async_linker, true)?;
        }
        let ticker = Ticker::new(engine.clone());
        Ok(Self { engine, ticker, sync_linker, async_linker, counts_fuel: kind == EngineKind::Fuelled })
    }
}

/// An engine that only compiles: for this machine, or for every machine of a target such as
/// `aarch64-unknown-linux-gnu`.
pub(crate) fn compiler(counts_fuel: bool, target: Option<&str>) -> Result<Engine, SandboxError> {
    let kind = if counts_fuel { EngineKind::Fuelled } else { EngineKind::OnDemand };
    let mut config = config(kind);
    let configured = target.map_or(Ok(()), |target| config.target(target).map(|_| ()));
    configured.and_then(|()| Engine::new(&config)).map_err(|error| SandboxError::Engine(format!("{error:#}")))
}

fn config(kind: EngineKind) -> Config {
    let mut config = Config::new();
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.consume_fuel(kind == EngineKind::Fuelled);
    config.max_wasm_stack(STACK_BYTES);
    config.wasm_backtrace_details(WasmBacktraceDetails::Enable);
    config.wasm_memory64(false);
    // Many small guests must fit: memory is mapped on demand, and guests share the pages of their image.
    config.memory_reservation(SLOT_BYTES);
    config.memory_guard_size(64 << 10);
    config.memory_reservation_for_growth(1 << 20);
    if kind == EngineKind::Pooled {
        config.allocation_strategy(pool());
    }
    config
}

/// Guests in the pool at a time; further ones are mapped on demand.
const POOL_GUESTS: u32 = 4096;
/// Modules and tables of an average guest: components have two or three modules.
const MODULES_PER_GUEST: u32 = 4;
const TABLES_PER_GUEST: u32 = 2;
const TABLE_ELEMENTS: usize = 4096;
/// Memory that an empty slot keeps. It is cleared in place instead of being unmapped.
const KEPT_BYTES: usize = 64 << 10;
const KEPT_TABLE_BYTES: usize = 4 << 10;

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(POOL_GUESTS)
        .total_core_instances(POOL_GUESTS * MODULES_PER_GUEST)
        .total_memories(POOL_GUESTS)
        .total_tables(POOL_GUESTS * TABLES_PER_GUEST)
        .table_elements(TABLE_ELEMENTS)
        .max_memory_size(SLOT_BYTES as usize)
        .linear_memory_keep_resident(KEPT_BYTES)
        .table_keep_resident(KEPT_TABLE_BYTES)
        // Guests that may wait in the host run on another engine: their stacks would take gigabytes of mappings.
        .total_stacks(0)
        // Where the kernel reports which pages were written, only those are cleared and kept.
        .pagemap_scan(Enabled::Auto);
    pool
}
