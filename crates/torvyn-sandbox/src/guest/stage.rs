//! A guest as a stage of a flow.
//!
//! A trap costs the element it happened on and what the guest held inside: the next call gets a new instance, made from
//! the same code and config. A guest that traps on every call is left alone for longer and longer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use torvyn_stream::{
    Call, ContentName, ContentType, Element, Emission, End, ErrorKind, Outbox, Pull, Stage, StageError, Step,
};
use wasmtime::component::{ComponentNamedList, Lift, Lower, Resource, TypedFunc};

use crate::contract::{
    BackpressureSignal, FlowContext, MetaIn, OutputElement, Polled, ProcessResult, Role, StreamElement,
    Verdict,
};
use crate::fault::{clip, guest_error};
use crate::guest::calls::{Answer, Calls};
use crate::guest::health::{Breaker, Health};
use crate::guest::instance::{Instance, Setup};
use crate::host::FlowInfo;
use crate::host::imports::{CONTEXT, content_name};
use crate::host::slab::{Readable, Slot};

/// A source that has nothing yet, or a sink that asked for a pause, is asked again after this time at the earliest.
const RETRY_MIN_NS: u64 = 10_000_000;
/// A source that has had nothing for long is asked again after this time at the latest.
const RETRY_MAX_NS: u64 = 1_000_000_000;
/// In between, a source waits for this part of the time that it has been idle: many idle flows cost little, and what
/// arrives after a short silence is not delayed by much more than the silence was long.
const IDLE_DIVISOR: u64 = 4;

/// Where an instance waits before its flow starts and after it has ended.
pub type SharedInstance = Arc<Mutex<Option<Instance>>>;

pub struct GuestStage {
    setup: Setup,
    instance: Option<Instance>,
    ports: Vec<String>,
    shared: SharedInstance,
    health: Arc<Health>,
    breaker: Breaker,
    wake_ns: Option<u64>,
    /// Since when a source has had nothing.
    idle_since_ns: Option<u64>,
    /// Whether the guest asks for what goes with elements and ends.
    wants_details: bool,
    /// The last well-known content type, with its name.
    last_type: (ContentType, Arc<str>),
}

/// Attributes of this size are not charged to the guest that made them once they are in a queue, which bounds their
/// number.
const FREE_BYTES: u64 = 4 << 10;

impl GuestStage {
    /// A stage over the instance that waits in `shared`; without one it makes its own at the first call.
    pub fn new(setup: Setup, ports: Vec<String>, shared: SharedInstance, health: Arc<Health>) -> Self {
        let instance = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let wants_details = setup.compiled.description.imports_details();
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
            last_type,
        }
    }

    /// The instance, or a new one in the place of one that trapped.
    #[inline]
    fn instance(&mut self) -> Result<&mut Instance, StageError> {
        if self.instance.is_none() {
            self.replace()?;
        }
        self.instance
            .as_mut()
            .ok_or_else(|| StageError::new(ErrorKind::Internal, "the guest has no instance"))
    }

    #[cold]
    fn replace(&mut self) -> Result<(), StageError> {
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
                Ok(())
            }
            Err(error) => {
                Health::note(&self.health.traps);
                self.breaker.record_trap();
                Err(error)
            }
        }
    }

    /// Calls the guest and closes the call's accounts, however it ended.
    #[inline]
    fn ask<P, R>(
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

    /// Lets an instance go that cannot be called again.
    #[cold]
    fn lose(&mut self, fault: StageError) -> StageError {
        if let Some(lost) = self.instance.take() {
            lost.deliver(&self.setup.printer, true);
        }
        Health::note(&self.health.traps);
        Health::note(&self.health.state_lost);
        self.breaker.record_trap();
        fault
    }

    /// Calls the guest with an element that is lent for the length of the call.
    #[inline]
    fn ask_about<T: 'static>(
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
        let answer = self.ask(name, function, (params,), Some(call));
        if let Some(instance) = &mut self.instance {
            instance.store.data_mut().slab.remove(handle);
        }
        self.settle(answer?)
    }

    /// What the guest answered; an error about its own answer is one against the contract.
    #[inline]
    fn settle<T>(&mut self, answer: Answer<T>) -> Result<T, StageError> {
        answer.0.map_err(|error| {
            let mut fault = guest_error(error);
            if self.instance.as_mut().is_some_and(|it| it.store.data_mut().details.take_wrong_answer()) {
                fault.kind = ErrorKind::Contract;
            }
            fault
        })
    }

    /// The end that a source said, or the usual one.
    fn ending(&mut self) -> End {
        let said = self.instance.as_mut().and_then(|it| it.store.data_mut().details.take_end());
        said.unwrap_or_else(|| End::because("stop"))
    }

    /// When a guest that has nothing, or wants nothing, is asked again: when it said, or after `usual_ns`.
    fn asked_again_at(&mut self, call: Call<'_>, usual_ns: u64) -> Result<u64, StageError> {
        let said = self.instance()?.store.data_mut().details.take_wait_ns();
        Ok(call.now_ns.saturating_add(said.unwrap_or(usual_ns)))
    }

    /// How long a source that has nothing is left alone.
    fn idle_wait_ns(&mut self, now_ns: u64) -> u64 {
        let since_ns = *self.idle_since_ns.get_or_insert(now_ns);
        (now_ns.saturating_sub(since_ns) / IDLE_DIVISOR).clamp(RETRY_MIN_NS, RETRY_MAX_NS)
    }

    /// What the guest gave away, as something to send.
    fn take(&mut self, output: OutputElement) -> Result<Emission, StageError> {
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
        let (len, companion, keep) = (readable.len, readable.companion, readable.keep);
        Ok(Emission { payload, len, content_type, companion, keep })
    }

    /// The name of an element's content type, as the guest gets it. Most elements have the type of the one before.
    #[inline]
    fn label(&mut self, element: &Element) -> Arc<str> {
        if self.last_type.0 != element.content_type {
            match element.content_name() {
                ContentName::Other(name) => return name,
                known => self.last_type = (element.content_type, Arc::from(known.as_str())),
            }
        }
        self.last_type.1.clone()
    }

    /// The functions of the instance that there is now.
    #[inline]
    fn calls(&mut self) -> Result<Calls, StageError> {
        Ok(self.instance()?.calls)
    }

    fn judge(&mut self, verdict: Verdict) -> Result<Step, StageError> {
        Ok(match verdict {
            Verdict::Pass => Step::Forward,
            Verdict::Drop => Step::Drop,
            Verdict::Replace(output) => Step::Replace(self.take(output)?),
            Verdict::Block(reason) => Step::Block(clip(reason)),
            Verdict::Hold => Step::Hold,
        })
    }

    fn direct(&mut self, names: Vec<String>, out: &mut Outbox) -> Result<Step, StageError> {
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

    /// What is wants_details to guests from now on.
    pub fn set_flow(&mut self, facts: FlowInfo) {
        if let Some(instance) = &mut self.instance {
            instance.store.data_mut().facts = facts.clone();
        }
        self.setup.facts = facts;
    }
}

fn no_such_call(what: &str) -> StageError {
    StageError::new(ErrorKind::Contract, format!("the component's role has no `{what}`"))
}

impl Stage for GuestStage {
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        // No element is lost by waiting: a source that rests is asked again when it has rested.
        if self.instance.is_none()
            && let Some(rest) = self.breaker.rest()
        {
            Health::note(&self.health.refused);
            return Ok(Pull::Pending(Some(call.now_ns + rest.as_nanos() as u64)));
        }
        match self.calls()? {
            Calls::Source { pull, .. } => {
                let answer = self.ask("pull", &pull, (), Some(call))?;
                match self.settle(answer)? {
                    Some(output) => Ok(Pull::Ready(self.take(output)?)),
                    None => Ok(Pull::End(self.ending())),
                }
            }
            Calls::PolledSource { pull, .. } => {
                let answer = self.ask("pull", &pull, (), Some(call))?;
                match self.settle(answer)? {
                    Polled::Element(output) => {
                        self.idle_since_ns = None;
                        Ok(Pull::Ready(self.take(output)?))
                    }
                    Polled::Pending => {
                        let wait_ns = self.idle_wait_ns(call.now_ns);
                        Ok(Pull::Pending(Some(self.asked_again_at(call, wait_ns)?)))
                    }
                    Polled::End => Ok(Pull::End(self.ending())),
                }
            }
            _ => Err(no_such_call("pull")),
        }
    }

    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        match self.calls()? {
            Calls::Filter { evaluate } => {
                let passes = self.ask_about("evaluate", &evaluate, element, call)?;
                Ok(if passes { Step::Forward } else { Step::Drop })
            }
            Calls::Guard { evaluate } => {
                let verdict = self.ask_about("evaluate", &evaluate, element, call)?;
                self.judge(verdict)
            }
            Calls::Processor { process } => {
                if let ProcessResult::Emit(output) = self.ask_about("process", &process, element, call)? {
                    out.emit(self.take(output)?);
                }
                Ok(Step::Done)
            }
            Calls::Expander { process, .. } => {
                for output in self.ask_about("process", &process, element, call)? {
                    out.emit(self.take(output)?);
                }
                Ok(Step::Done)
            }
            Calls::Aggregator { ingest, .. } => {
                if let Some(output) = self.ask_about("ingest", &ingest, element, call)? {
                    out.emit(self.take(output)?);
                }
                Ok(Step::Done)
            }
            Calls::Router { route } => {
                let names = self.ask_about("route", &route, element, call)?;
                self.direct(names, out)
            }
            Calls::Sink { push, .. } => match self.ask_about("push", &push, element, call)? {
                BackpressureSignal::Ready => Ok(Step::Done),
                BackpressureSignal::Pause => {
                    self.wake_ns = Some(self.asked_again_at(call, RETRY_MIN_NS)?);
                    Ok(Step::Pause)
                }
            },
            Calls::Source { .. } | Calls::PolledSource { .. } => Err(no_such_call("accept")),
        }
    }

    fn flush(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        // A new instance for a role that has nothing to flush would be made in vain, or refused.
        if !matches!(self.setup.compiled.description.role, Role::Aggregator | Role::Expander) {
            return Ok(Step::Done);
        }
        if let Calls::Aggregator { flush, .. } | Calls::Expander { flush, .. } = self.calls()? {
            let answer = self.ask("flush", &flush, (), Some(call))?;
            for output in self.settle(answer)? {
                out.emit(self.take(output)?);
            }
        }
        Ok(Step::Done)
    }

    fn complete(&mut self, end: &End) -> Result<(), StageError> {
        if let Calls::Sink { complete, .. } = self.calls()? {
            if self.wants_details {
                self.instance()?.store.data_mut().details.tell_end(end);
            }
            let answer = self.ask("complete", &complete, (), None)?;
            self.settle(answer)?;
        }
        Ok(())
    }

    fn due(&self) -> Option<u64> {
        self.wake_ns
    }

    fn tick(&mut self, _call: Call<'_>, _out: &mut Outbox) -> Result<(), StageError> {
        self.wake_ns = None;
        Ok(())
    }

    fn pressure(&mut self, active: bool) {
        let signal = if active { BackpressureSignal::Pause } else { BackpressureSignal::Ready };
        let Some(instance) = &self.instance else { return };
        let notify = match &instance.calls {
            Calls::Source { notify, .. } | Calls::PolledSource { notify, .. } => *notify,
            _ => return,
        };
        // A guest that traps here is replaced like any other; there is no element to blame.
        let _ = self.ask("notify-backpressure", &notify, (signal,), None);
    }

    fn close(&mut self) {
        if let Some(instance) = self.instance.take() {
            *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(instance);
        }
    }
}

impl Drop for GuestStage {
    fn drop(&mut self) {
        self.close();
    }
}
