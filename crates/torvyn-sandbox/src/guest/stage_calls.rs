//! The calls of a stage, mapped to the functions of a guest's role.

use std::sync::PoisonError;

use torvyn_stream::{Call, Element, End, ErrorKind, Outbox, Pull, Stage, StageError, Step};

use crate::contract::{BackpressureSignal, Polled, ProcessResult, Role};
use crate::guest::calls::Calls;
use crate::guest::health::Health;
use crate::guest::stage::{GuestStage, RETRY_MIN_NS};

fn no_such_call(what: &str) -> StageError {
    StageError::new(ErrorKind::Contract, format!("the component's role has no `{what}`"))
}

impl Stage for GuestStage {
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        // Waiting loses no element: a paused source is pulled again when its pause is over.
        if self.instance.is_none()
            && let Some(rest) = self.breaker.rest()
        {
            Health::note(&self.health.refused);
            return Ok(Pull::Pending(Some(call.now_ns + rest.as_nanos() as u64)));
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
