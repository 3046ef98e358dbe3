//! A guest as a stage of a flow.
//!
//! A trap costs the element it happened on and the guest's state: the next call gets a new instance from the same code
//! and config. A guest that traps on every call is paused for longer and longer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use torvyn_stream::{
    Call, ContentName, ContentType, Delivery, Element, Emission, End, ErrorKind, Outbox, StageError, Step,
};
use wasmtime::component::{ComponentNamedList, Lift, Lower, Resource, TypedFunc};

use crate::contract::{FlowContext, MetaIn, OutputElement, StreamElement, Verdict};
use crate::fault::{clip, guest_error};
use crate::guest::batch::BatchSize;
use crate::guest::calls::{Answer, Calls};
use crate::guest::health::{Breaker, Health};
use crate::guest::instance::{Instance, Setup};
use crate::host::FlowInfo;
use crate::host::imports::{CONTEXT, content_name};
use crate::host::slab::{Readable, Slot};

/// The earliest retry of a source that is pending, or of a sink that asked for a pause.
pub(super) const RETRY_MIN_NS: u64 = 10_000_000;
/// The latest retry of a source that has been idle for long.
const RETRY_MAX_NS: u64 = 1_000_000_000;
/// In between, a source waits for this part of its idle time: many idle flows cost little, and what arrives after a
/// short silence is delayed by little more than that silence.
const IDLE_DIVISOR: u64 = 4;

/// Holds an instance before its flow starts and after it has ended.
pub type SharedInstance = Arc<Mutex<Option<Instance>>>;

pub struct GuestStage {
    pub(super) setup: Setup,
    pub(super) instance: Option<Instance>,
    pub(super) ports: Vec<String>,
    pub(super) shared: SharedInstance,
    pub(super) health: Arc<Health>,
    pub(super) breaker: Breaker,
    pub(super) wake_ns: Option<u64>,
    /// Since when a source has been idle.
    pub(super) idle_since_ns: Option<u64>,
    /// Whether the guest uses attributes and ends.
    pub(super) wants_details: bool,
    /// Whether the guest has its role's batch function.
    pub(super) has_batch: bool,
    pub(super) batch_size: BatchSize,
    /// The last well-known content type, with its name.
    pub(super) last_type: (ContentType, Arc<str>),
}

/// Attributes up to this size are not charged to their guest once they are in a queue, which bounds their number.
pub(super) const FREE_BYTES: u64 = 4 << 10;

impl GuestStage {
    /// A stage for the instance in `shared`. Without one it creates its own at the first call.
    pub fn new(setup: Setup, ports: Vec<String>, shared: SharedInstance, health: Arc<Health>) -> Self {
        let instance = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let wants_details = setup.compiled.description.imports_details();
        let has_batch = setup.compiled.description.has_batch();
        let last_type = (ContentType::TEXT, Arc::from(ContentName::TEXT.as_str()));
        let breaker = Breaker::default();
        let (wake_ns, idle_since_ns) = (None, None);
        Self {
            setup,
            instance,
            ports,
            shared,
            health,
            breaker,
            wake_ns,
            idle_since_ns,
            wants_details,
            has_batch,
            batch_size: BatchSize::default(),
            last_type,
        }
    }

    /// The instance, or a replacement for one that trapped.
    #[inline]
    pub(super) fn instance(&mut self) -> Result<&mut Instance, StageError> {
        if self.instance.is_none() {
            self.replace()?;
        }
        self.instance
            .as_mut()
            .ok_or_else(|| StageError::new(ErrorKind::Internal, "the guest has no instance"))
    }

    #[cold]
    pub(super) fn replace(&mut self) -> Result<(), StageError> {
        if let Some(rest) = self.breaker.rest() {
            Health::note(&self.health.refused);
            let message = format!(
                "the component trapped {} times in a row and is paused for {} ms",
                self.breaker.in_a_row(),
                rest.as_millis()
            );
            return Err(StageError::new(ErrorKind::Unavailable, message));
        }
        let started = Instant::now();
        match Instance::start(&self.setup) {
            Ok(instance) => {
                if self.breaker.in_a_row() > 0 {
                    self.health.note_replaced(started.elapsed());
                }
                self.instance = Some(instance);
                self.health.note_memory(self.instance.as_ref());
                Ok(())
            }
            Err(error) => {
                Health::note(&self.health.traps);
                self.breaker.record_trap();
                Err(error)
            }
        }
    }

    /// Calls the guest and posts the call's copies to the ledger, whatever the result.
    #[inline]
    pub(super) fn call_guest<P, R>(
        &mut self,
        name: &str,
        function: &TypedFunc<P, R>,
        params: P,
        call: Option<Call<'_>>,
    ) -> Result<R, StageError>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let Some(instance) = self.instance.as_mut() else {
            return Err(StageError::new(ErrorKind::Internal, "the guest has no instance"));
        };
        let outcome = instance.call(function, params);
        if let Some(call) = call {
            instance.store.data_mut().post(call.ledger);
        }
        self.health.note_memory(Some(instance));
        match outcome {
            Ok(answer) => {
                if self.setup.compiled.description.imports_wasi() {
                    instance.deliver(&self.setup.printer, false);
                }
                self.breaker.record_answer();
                Ok(answer)
            }
            Err(error) => {
                let fault = instance.trap(name, &error, instance.call_timeout());
                Err(self.lose(fault))
            }
        }
    }

    /// Drops an instance that cannot be called again.
    #[cold]
    pub(super) fn lose(&mut self, fault: StageError) -> StageError {
        if let Some(lost) = self.instance.take() {
            lost.deliver(&self.setup.printer, true);
        }
        self.health.note_memory(None);
        Health::note(&self.health.traps);
        Health::note(&self.health.state_lost);
        self.breaker.record_trap();
        fault
    }

    /// Calls the guest with an element that it borrows for the call.
    #[inline]
    pub(super) fn call_with_element<T: 'static>(
        &mut self,
        name: &str,
        function: &TypedFunc<(StreamElement,), Answer<T>>,
        element: &Element,
        call: Call<'_>,
    ) -> Result<T, StageError>
    where
        Answer<T>: ComponentNamedList + Lift + Send + Sync,
    {
        let lent = Slot::Readable(Readable {
            payload: element.payload.clone(),
            len: element.len,
            content_type: Some(element.content_name()),
            companion: self.wants_details.then(|| element.companion.clone()).flatten(),
            charge: None,
            keep: false,
        });
        let label = self.label(element);
        let host = self.instance()?.store.data_mut();
        let handle = host.hand_out(lent).map_err(|refused| StageError::new(ErrorKind::Internal, refused))?;
        let params = StreamElement {
            meta: MetaIn {
                sequence: element.sequence,
                timestamp_ns: element.timestamp_ns,
                content_type: label,
            },
            payload: Resource::new_borrow(handle),
            context: Resource::<FlowContext>::new_borrow(CONTEXT),
        };
        let answer = self.call_guest(name, function, (params,), Some(call));
        if let Some(instance) = &mut self.instance {
            instance.store.data_mut().slab.remove(handle);
        }
        self.settle(answer?)
    }

    /// The guest's result. An error about the result itself breaks the contract.
    #[inline]
    pub(super) fn settle<T>(&mut self, answer: Answer<T>) -> Result<T, StageError> {
        answer.0.map_err(|error| {
            let mut fault = guest_error(error);
            if self.instance.as_mut().is_some_and(|it| it.store.data_mut().details.take_wrong_answer()) {
                fault.kind = ErrorKind::Contract;
            }
            fault
        })
    }

    /// The end that a source set, or the default.
    pub(super) fn ending(&mut self) -> End {
        let end = self.instance.as_mut().and_then(|it| it.store.data_mut().details.take_end());
        end.unwrap_or_else(|| End::because("stop"))
    }

    /// When to call a guest again that has nothing, or wants nothing: when it said, or after `usual_ns`.
    pub(super) fn retry_at_ns(&mut self, call: Call<'_>, usual_ns: u64) -> Result<u64, StageError> {
        let wait_ns = self.instance()?.store.data_mut().details.take_wait_ns();
        Ok(call.now_ns.saturating_add(wait_ns.unwrap_or(usual_ns)))
    }

    /// How long an idle source is left alone.
    pub(super) fn idle_wait_ns(&mut self, now_ns: u64) -> u64 {
        let since_ns = *self.idle_since_ns.get_or_insert(now_ns);
        (now_ns.saturating_sub(since_ns) / IDLE_DIVISOR).clamp(RETRY_MIN_NS, RETRY_MAX_NS)
    }

    /// The guest's output as an emission.
    pub(super) fn take(&mut self, output: OutputElement) -> Result<Emission, StageError> {
        let broken = |message: &str| StageError::new(ErrorKind::Contract, message);
        let host = self.instance()?.store.data_mut();
        let readable =
            host.take(output.payload.rep()).ok_or_else(|| broken("the output's payload is not a buffer"))?;
        let named = match readable.content_type {
            Some(name) => Some(name),
            None => content_name(&output.meta.content_type).map_err(|error| broken(&error.to_string()))?,
        };
        let (mut payload, content_type) = readable.payload.named(named.unwrap_or(ContentName::BINARY));
        if let Some(charge) = readable.charge.filter(|charge| charge.bytes() > FREE_BYTES) {
            payload = payload.charged(charge);
        }
        let (len, companion, delivery) = (readable.len, readable.companion, Delivery::kept_if(readable.keep));
        Ok(Emission { payload, len, content_type, companion, delivery })
    }

    /// The name of an element's content type, for the guest. Most elements have the type of the one before.
    #[inline]
    pub(super) fn label(&mut self, element: &Element) -> Arc<str> {
        if self.last_type.0 != element.content_type {
            match element.content_name() {
                ContentName::Other(name) => return name,
                known => self.last_type = (element.content_type, Arc::from(known.as_str())),
            }
        }
        self.last_type.1.clone()
    }

    /// The functions of the current instance.
    #[inline]
    pub(super) fn calls(&mut self) -> Result<Calls, StageError> {
        Ok(self.instance()?.calls)
    }

    pub(super) fn judge(&mut self, verdict: Verdict) -> Result<Step, StageError> {
        Ok(match verdict {
            Verdict::Pass => Step::Forward,
            Verdict::Drop => Step::Drop,
            Verdict::Replace(output) => Step::Replace(self.take(output)?),
            Verdict::Block(reason) => Step::Block(clip(reason)),
            Verdict::Hold => Step::Hold,
        })
    }

    pub(super) fn direct(&mut self, names: Vec<String>, out: &mut Outbox) -> Result<Step, StageError> {
        for name in names {
            let Some(port) = self.ports.iter().position(|known| *known == name) else {
                out.ports.clear();
                let ports = self.ports.join(", ");
                let message =
                    format!("`route` returned the unknown port `{}`; the ports are {ports}", clip(name));
                return Err(StageError::new(ErrorKind::Contract, message));
            };
            out.ports.push(port as u16);
        }
        Ok(Step::Route)
    }

    /// Sets what guests learn about the flow.
    pub fn set_flow(&mut self, facts: FlowInfo) {
        if let Some(instance) = &mut self.instance {
            instance.store.data_mut().facts = facts.clone();
        }
        self.setup.facts = facts;
    }
}
