//! One instance: a store, its guest, and the typed calls into it. A trap ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use torvyn_stream::{ErrorKind, StageError};
use wasmtime::component::{ComponentNamedList, Lift, Lower, TypedFunc};
use wasmtime::{Error, PoolConcurrencyLimitError, Store, UpdateDeadline};

use crate::batch_contract::STATE;
use crate::capabilities::denial::Denials;
use crate::capabilities::grants::Grants;
use crate::capabilities::print::Printer;
use crate::compile::compiled_component::{CompiledComponent, LinkedComponent};
use crate::compile::engine::RuntimeEngine;
use crate::fault::{CallTimeout, SandboxError, guest_error, trap_error};
use crate::guest::batch_calls::OptionalCalls;
use crate::guest::calls::{Calls, Lifecycle, lifecycle};
use crate::guest::ticker::Ticker;
use crate::host::limits::{Limits, PAYLOAD_MAX};
use crate::host::{FlowInfo, Host};

/// Everything that instances of one node share.
pub struct Setup {
    pub compiled: Arc<CompiledComponent>,
    pub config: String,
    pub limits: Limits,
    pub grants: Arc<Grants>,
    pub denials: Arc<Denials>,
    pub facts: FlowInfo,
    pub printer: Printer,
}

pub struct Instance {
    pub(crate) store: Store<Host>,
    pub(crate) calls: Calls,
    pub(crate) optional: OptionalCalls,
    lifecycle: Option<Lifecycle>,
    compiled: Arc<CompiledComponent>,
    ticker: Arc<Ticker>,
    waits: bool,
    fuel: Option<u64>,
    limits: Limits,
}

impl Instance {
    /// Instantiates the guest and calls its `init`.
    pub fn start(setup: &Setup) -> Result<Self, StageError> {
        let started = Instant::now();
        let mut instance = Self::instantiate(setup)?;
        let outcome = instance.init(&setup.config, started);
        instance.deliver(&setup.printer, outcome.is_err());
        outcome.map(|()| instance)
    }

    fn instantiate(setup: &Setup) -> Result<Self, StageError> {
        let compiled = &setup.compiled;
        let waits = compiled.description.may_wait(&setup.grants);
        match Self::instantiate_from(setup, compiled.linked(waits, &setup.limits), waits) {
            Err(StartFailure::PoolFull) => Self::instantiate_from(setup, compiled.on_demand(), waits),
            started => started,
        }
        .map_err(|reason| match reason {
            StartFailure::Failed(error) => error,
            StartFailure::PoolFull => {
                contract(SandboxError::Engine("the pool of instances is full".to_owned()))
            }
        })
    }

    fn instantiate_from(setup: &Setup, linked: &LinkedComponent, waits: bool) -> Result<Self, StartFailure> {
        let compiled = setup.compiled.clone();
        let runtime = compiled.runtime(linked).map_err(contract)?;
        let (ticker, counts_fuel) = (runtime.ticker.clone(), runtime.counts_fuel);
        ticker.start().map_err(|error| contract(SandboxError::Engine(error.to_string())))?;
        let mut store = open_store(setup, runtime).map_err(contract)?;
        ticker.note();
        let made = if waits {
            let pending = linked.pre(true).instantiate_async(&mut store);
            timed(&compiled, setup.limits.init_timeout, pending)
        } else {
            linked.pre(false).instantiate(&mut store)
        };
        let guest = made.map_err(|error| StartFailure::because(&error, store.data(), &setup.limits))?;
        let (role, exports) = (compiled.description.role, &linked.exports);
        let calls = Calls::of(&guest, &mut store, role, exports).map_err(contract)?;
        let optional = OptionalCalls::of(&guest, &mut store, role, exports).map_err(contract)?;
        let lifecycle = lifecycle(&guest, &mut store, exports).map_err(contract)?;
        let limits = setup.limits.clone();
        let fuel = limits.fuel.filter(|_| counts_fuel);
        Ok(Self { store, calls, optional, lifecycle, compiled, ticker, waits, fuel, limits })
    }

    fn init(&mut self, config: &str, started: Instant) -> Result<(), StageError> {
        let Some((init, _)) = self.lifecycle else { return Ok(()) };
        let timeout = self.limits.init_timeout;
        let left = timeout.saturating_sub(started.elapsed());
        let fuel = self.fuel.map(|fuel| fuel.saturating_mul(100));
        let called = self.call_within(&init, (config.to_owned(),), left, fuel);
        let (answer,) = called.map_err(|error| self.trap("init", &error, timeout))?;
        answer.map_err(guest_error)
    }

    /// The guest's state; `None` if it has no `snapshot`.
    pub fn snapshot(&mut self, printer: &Printer) -> Result<Option<Vec<u8>>, StageError> {
        let Some((snapshot, _)) = self.optional.state else { return Ok(None) };
        let called = self.call(&snapshot, ());
        self.deliver(printer, called.is_err());
        let (answer,) = called.map_err(|error| self.trap("snapshot", &error, self.limits.call_timeout))?;
        answer.map(Some).map_err(guest_error)
    }

    /// Gives the guest a state that `snapshot` returned.
    pub fn restore(&mut self, state: Vec<u8>, printer: &Printer) -> Result<(), StageError> {
        let Some((_, restore)) = self.optional.state else {
            return Err(contract(SandboxError::Contract {
                interface: STATE.to_owned(),
                reason: "`restore` is missing".to_owned(),
            }));
        };
        let timeout = self.limits.init_timeout;
        let called = self.call_within(&restore, (state,), timeout, self.fuel);
        self.deliver(printer, called.is_err());
        let (answer,) = called.map_err(|error| self.trap("restore", &error, timeout))?;
        answer.map_err(guest_error)
    }

    /// Calls the guest's `teardown`. The instance is over, whatever the result.
    pub fn teardown(mut self, printer: &Printer, timeout: Duration) -> Result<(), StageError> {
        let outcome = match self.lifecycle {
            Some((_, teardown)) => {
                let called = self.call_within(&teardown, (), timeout, self.fuel);
                called.map_err(|error| self.trap("teardown", &error, timeout))
            }
            None => Ok(()),
        };
        self.deliver(printer, true);
        let failure = self.store.data_mut().details.take_failure();
        outcome.and_then(|()| failure.map_or(Ok(()), |why| Err(StageError::new(ErrorKind::Internal, why))))
    }

    #[inline]
    pub(crate) fn call<P, R>(&mut self, function: &TypedFunc<P, R>, params: P) -> wasmtime::Result<R>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        self.call_within(function, params, self.limits.call_timeout, self.fuel)
    }

    #[inline]
    fn call_within<P, R>(
        &mut self,
        function: &TypedFunc<P, R>,
        params: P,
        timeout: Duration,
        fuel: Option<u64>,
    ) -> wasmtime::Result<R>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        self.store.data_mut().stopwatch.begin(timeout);
        self.store.set_epoch_deadline(1);
        if let Some(fuel) = fuel {
            self.store.set_fuel(fuel)?;
        }
        self.ticker.note();
        if self.waits {
            return timed(&self.compiled, timeout, function.call_async(&mut self.store, params));
        }
        function.call(&mut self.store, params)
    }

    /// The error of a call that did not return.
    pub(crate) fn trap(&self, function: &str, error: &Error, timeout: Duration) -> StageError {
        trap_error(function, error, self.store.data().limiter.refused.as_deref(), timeout)
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.limits.call_timeout
    }

    #[inline]
    pub(crate) fn deliver(&self, printer: &Printer, last: bool) {
        self.store.data().printed.deliver(printer, last);
        self.store.data().denials.deliver();
    }

    /// The guest's current linear memory.
    pub fn memory_bytes(&self) -> u64 {
        self.store.data().limiter.memory_bytes()
    }
}

/// Why an instance did not start.
enum StartFailure {
    /// More guests run than the pool has slots.
    PoolFull,
    Failed(StageError),
}

impl StartFailure {
    fn because(error: &Error, host: &Host, limits: &Limits) -> Self {
        if error.is::<PoolConcurrencyLimitError>() {
            return Self::PoolFull;
        }
        Self::Failed(trap_error("instantiate", error, host.limiter.refused.as_deref(), limits.init_timeout))
    }
}

impl From<StageError> for StartFailure {
    fn from(error: StageError) -> Self {
        Self::Failed(error)
    }
}

fn contract(error: SandboxError) -> StageError {
    StageError::new(ErrorKind::Contract, error.to_string())
}

/// Runs a call that may wait in the host. An epoch stops a guest that computes, the timer stops one that waits.
fn timed<T>(
    compiled: &CompiledComponent,
    timeout: Duration,
    pending: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    let timers = compiled.sandbox.timers().map_err(|error| Error::msg(error.to_string()))?;
    let outcome = timers.block_on(async { tokio::time::timeout(timeout, pending).await });
    outcome.unwrap_or_else(|_| Err(Error::new(CallTimeout)))
}

/// Bytes of lists and strings that one call may pass to the host: the largest payload, and some more.
const LIFT_MAX: u64 = PAYLOAD_MAX + (64 << 10);
/// Handles of all kinds that a guest may have; handles of its own resources are in the host too.
const HANDLES_MAX: usize = 64 << 10;

fn open_store(setup: &Setup, runtime: &RuntimeEngine) -> Result<Store<Host>, SandboxError> {
    let limits = &setup.limits;
    let ticker = runtime.ticker.clone();
    let host = Host::new(limits.clone(), setup.grants.clone(), setup.denials.clone(), setup.facts.clone());
    let mut store = Store::new(&runtime.engine, host);
    store.data_mut().details.translator = setup.compiled.sandbox.translator.clone();
    store.limiter(|host| &mut host.limiter);
    store.set_hostcall_fuel(limits.memory_bytes.min(LIFT_MAX) as usize);
    store.set_max_component_handles(HANDLES_MAX);
    if setup.compiled.description.imports_wasi() {
        let opened = store.data_mut().open_wasi();
        opened.map_err(|error| SandboxError::Grant(format!("{error:#}")))?;
    }
    store.epoch_deadline_callback(move |mut store| {
        ticker.note();
        let is_over = store.data_mut().stopwatch.is_over();
        Ok(if is_over { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
    });
    store.data_mut().stopwatch.begin(limits.init_timeout);
    store.set_epoch_deadline(1);
    if runtime.counts_fuel {
        // Instantiation runs start functions; the deadline bounds them.
        store.set_fuel(u64::MAX).map_err(|error| SandboxError::Engine(error.to_string()))?;
    }
    Ok(store)
}
