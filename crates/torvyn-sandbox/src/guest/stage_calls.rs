//! The calls of a stage, mapped to the functions of a guest's role.

use std::sync::PoisonError;

use torvyn_stream::{Answers, Batch, Call, Element, End, ErrorKind, Outbox, Pull, Stage, StageError, Step};

use crate::contract::{BackpressureSignal, Polled, ProcessResult, Role};
use crate::guest::calls::Calls;
use crate::guest::health::Health;
use crate::guest::stage::{GuestStage, RETRY_MIN_NS};

fn no_such_call(what: &str) -> StageError {
    StageError::new(ErrorKind::Contract, format!("the component's role has no `{what}`"))
}

impl GuestStage {
    /// How long a source that trapped too often is left alone. Waiting loses no element.
    fn rest_ns(&self) -> Option<u64> {
        let rest = self.breaker.rest().filter(|_| self.instance.is_none())?;
        Health::note(&self.health.refused);
        Some(rest.as_nanos() as u64)
    }
}

impl Stage for GuestStage {
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        if let Some(rest_ns) = self.rest_ns() {
            return Ok(Pull::Pending(Some(call.now_ns + rest_ns)));
        }
        match self.calls()? {
            Calls::Source { pull, .. } => {
                let answer = self.call_guest("pull", &pull, (), Some(call))?;
                match self.settle(answer)? {
                    Some(output) => Ok(Pull::Ready(self.take(output)?)),
                    None => Ok(Pull::End(self.ending())),
                }
            }
            Calls::PolledSource { pull, .. } => {
                let answer = self.call_guest("pull", &pull, (), Some(call))?;
                match self.settle(answer)? {
                    Polled::Element(output) => {
                        self.idle_since_ns = None;
                        Ok(Pull::Ready(self.take(output)?))
                    }
                    Polled::Pending => {
                        let wait_ns = self.idle_wait_ns(call.now_ns);
                        Ok(Pull::Pending(Some(self.retry_at_ns(call, wait_ns)?)))
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
                let passes = self.call_with_element("evaluate", &evaluate, element, call)?;
                Ok(if passes { Step::Forward } else { Step::Drop })
            }
            Calls::Guard { evaluate } => {
                let verdict = self.call_with_element("evaluate", &evaluate, element, call)?;
                self.judge(verdict)
            }
            Calls::Processor { process } => {
                if let ProcessResult::Emit(output) =
                    self.call_with_element("process", &process, element, call)?
                {
                    out.emit(self.take(output)?);
                }
                Ok(Step::Done)
            }
            Calls::Expander { process, .. } => {
                for output in self.call_with_element("process", &process, element, call)? {
                    out.emit(self.take(output)?);
                }
                Ok(Step::Done)
            }
            Calls::Aggregator { ingest, .. } => {
                if let Some(output) = self.call_with_element("ingest", &ingest, element, call)? {
                    out.emit(self.take(output)?);
                }
                Ok(Step::Done)
            }
            Calls::Router { route } => {
                let names = self.call_with_element("route", &route, element, call)?;
                self.direct(names, out)
            }
            Calls::Sink { push, .. } => match self.call_with_element("push", &push, element, call)? {
                BackpressureSignal::Ready => Ok(Step::Done),
                BackpressureSignal::Pause => {
                    self.wake_ns = Some(self.retry_at_ns(call, RETRY_MIN_NS)?);
                    Ok(Step::Pause)
                }
            },
            Calls::Source { .. } | Calls::PolledSource { .. } => Err(no_such_call("accept")),
        }
    }

    fn batch_limit(&self) -> usize {
        let is_source = matches!(self.setup.compiled.description.role, Role::Source | Role::PolledSource);
        if self.has_batch && !is_source { self.batch_size.most() } else { 1 }
    }

    fn accept_batch(
        &mut self,
        batch: Batch<'_>,
        call: Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), StageError> {
        self.accept_batch_call(&batch, call, answers)
    }

    fn pulls_many(&self) -> bool {
        // A source that may wait in a call must not keep the elements it already has.
        let waits = self.setup.compiled.description.may_wait(&self.setup.grants);
        self.has_batch && self.batch_limit() == 1 && !waits
    }

    fn pull_many(
        &mut self,
        most: usize,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Option<Pull>, StageError> {
        if let Some(rest_ns) = self.rest_ns() {
            return Ok(Some(Pull::Pending(Some(call.now_ns + rest_ns))));
        }
        self.pull_batch_call(most, call, out)
    }

    fn snapshot(&mut self, _call: Call<'_>) -> Result<Option<Vec<u8>>, StageError> {
        match &mut self.instance {
            Some(instance) => instance.snapshot(&self.setup.printer),
            None => Ok(None),
        }
    }

    fn flush(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        // A role that has nothing to flush needs no new instance.
        if !matches!(self.setup.compiled.description.role, Role::Aggregator | Role::Expander) {
            return Ok(Step::Done);
        }
        if let Calls::Aggregator { flush, .. } | Calls::Expander { flush, .. } = self.calls()? {
            let answer = self.call_guest("flush", &flush, (), Some(call))?;
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
            let answer = self.call_guest("complete", &complete, (), None)?;
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
        // A guest that traps here is replaced like any other; no element is to blame.
        let _ = self.call_guest("notify-backpressure", &notify, (signal,), None);
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
