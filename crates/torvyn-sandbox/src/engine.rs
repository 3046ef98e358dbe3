//! The sandbox: engines, linkers and tickers, made on first use and shared by everything that runs in the process.

use std::sync::{Arc, OnceLock};

use wasmtime::component::Linker;
use wasmtime::{Config, Engine, WasmBacktraceDetails};

use crate::details::Translator;
use crate::fault::SandboxError;
use crate::host::Host;
use crate::imports;
use crate::ticker::Ticker;
use crate::watch;

/// The guest's stack. An interpreter in a guest stops deep recursion by its own stack, in its memory; this one must be
/// large enough for that to come first, or what would be an exception there is a trap here. It must fit into the 2 MiB
/// of a thread or a fiber, with room for the host's own calls.
const STACK_BYTES: usize = 1536 << 10;

/// One engine with what belongs to it.
pub struct Workshop {
    pub engine: Engine,
    pub ticker: Arc<Ticker>,
    /// For guests that can only call functions that return at once.
    pub prompt: Linker<Host>,
    /// For guests that may wait in the host: their calls run on a fiber, with a timer around them.
    pub patient: Linker<Host>,
    pub counts_fuel: bool,
}

/// Both engines: counting fuel costs every call, so only guests that are asked for it pay.
#[derive(Default)]
pub struct Sandbox {
    plain: OnceLock<Workshop>,
    fuelled: OnceLock<Workshop>,
    timers: OnceLock<tokio::runtime::Runtime>,
    pub(crate) translator: Option<Arc<dyn Translator>>,
}

impl Sandbox {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A sandbox in whose flows elements carry objects of a host language.
    pub fn hosted(translator: Arc<dyn Translator>) -> Arc<Self> {
        let (plain, fuelled, timers) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { plain, fuelled, timers, translator: Some(translator) })
    }

    pub fn workshop(&self, counts_fuel: bool) -> Result<&Workshop, SandboxError> {
        let place = if counts_fuel { &self.fuelled } else { &self.plain };
        if let Some(made) = place.get() {
            return Ok(made);
        }
        let made = Workshop::new(counts_fuel).map_err(|error| SandboxError::Engine(error.to_string()))?;
        Ok(place.get_or_init(|| made))
    }

    /// Where calls that may wait in the host are timed.
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
        for workshop in [self.plain.get(), self.fuelled.get()].into_iter().flatten() {
            workshop.ticker.stop();
        }
    }
}

impl Workshop {
    fn new(counts_fuel: bool) -> wasmtime::Result<Self> {
        let engine = Engine::new(&config(counts_fuel))?;
        let mut prompt = Linker::new(&engine);
        imports::link(&mut prompt)?;
        wasmtime_wasi::p2::add_to_linker_sync(&mut prompt)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_sync(&mut prompt)?;
        watch::link(&mut prompt, false)?;
        let mut patient = Linker::new(&engine);
        imports::link(&mut patient)?;
        wasmtime_wasi::p2::add_to_linker_async(&mut patient)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut patient)?;
        watch::link(&mut patient, true)?;
        let ticker = Ticker::new(engine.clone());
        Ok(Self { engine, ticker, prompt, patient, counts_fuel })
    }
}

fn config(counts_fuel: bool) -> Config {
    let mut config = Config::new();
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.consume_fuel(counts_fuel);
    config.max_wasm_stack(STACK_BYTES);
    config.wasm_backtrace_details(WasmBacktraceDetails::Enable);
    config.wasm_memory64(false);
    // Many small guests must fit: memory is mapped on demand, and the pages of a guest's image are shared.
    config.memory_reservation(64 << 20);
    config.memory_guard_size(64 << 10);
    config.memory_reservation_for_growth(1 << 20);
    config
}
