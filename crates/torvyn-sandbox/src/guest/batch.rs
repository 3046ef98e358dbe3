//! A guest's batch calls: what waits goes into the guest as one piece, and its results come back as one piece.

use std::time::{Duration, Instant};

use torvyn_stream::{
    Answers, Batch, Call, ContentName, CopyReason, Delivery, Element, Emission, ErrorKind, Outbox, Payload,
    Pull, StageError, Step,
};
use wasmtime::component::{Resource, TypedFunc};

use crate::batch_contract::{
    Attributed, BatchIn, BatchParams, Failed, OutputDetail, Outputs, Progress, Pushed, Verdicts,
};
use crate::contract::{BackpressureSignal, FlowContext};
use crate::fault::clip;
use crate::guest::batch_calls::BatchCall;
use crate::guest::calls::Answer;
use crate::guest::stage::{GuestStage, RETRY_MIN_NS};
use crate::host::imports::{CONTEXT, content_name};

/// The first batch of a guest; a guest that keeps up gets larger ones.
const FIRST_BATCH: usize = 16;
const MAX_BATCH: usize = 256;
/// The payloads of a batch take at most this much of the guest's memory. A larger one is passed on its own.
const MAX_BYTES: usize = 32 << 10;
/// A guest that needs longer for a batch gets a smaller one, so that a call stays far from its time limit.
const LONG_BATCH: Duration = Duration::from_millis(20);

/// How many elements a guest gets at once.
pub(super) struct BatchSize(usize);

impl Default for BatchSize {
    fn default() -> Self {
        Self(FIRST_BATCH)
    }
}

impl BatchSize {
    pub fn most(&self) -> usize {
        self.0
    }

    fn adapt(&mut self, count: usize, took: Duration) {
        if took > LONG_BATCH {
            self.0 = (self.0 / 2).max(2);
        } else if count >= self.0 {
            self.0 = (self.0 * 2).min(MAX_BATCH);
        }
    }
}

fn broken(message: &str) -> StageError {
    StageError::new(ErrorKind::Contract, message)
}

impl GuestStage {
    pub(super) fn batch_call(&mut self) -> Result<Option<BatchCall>, StageError> {
        Ok(self.instance()?.optional.batch)
    }

    /// Gives the guest as many elements as belong together. The others stay in the queue.
    pub(super) fn accept_batch_call(
        &mut self,
        batch: &Batch<'_>,
        call: Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), StageError> {
        let started = Instant::now();
        let function = self.batch_call()?;
        let (input, count) = self.input_of(batch, call);
        if count < 2 {
            return Err(StageError::new(ErrorKind::Internal, "the elements do not belong together"));
        }
        match function {
            Some(BatchCall::Make(function)) => {
                let outputs = self.call_batch("batch", &function, input, call)?;
                self.settle_outputs(outputs, count, call, answers, |_| Step::Done)?;
            }
            Some(BatchCall::Evaluate(function)) => {
                let verdicts = self.call_batch("evaluate-batch", &function, input, call)?;
                self.settle_verdicts(verdicts, count, call, answers)?;
            }
            Some(BatchCall::Push(function)) => {
                let pushed = self.call_batch("push-batch", &function, input, call)?;
                self.settle_pushed(pushed, count, call, answers)?;
            }
            Some(BatchCall::Pull(_)) | None => return Err(broken("the component takes no batches")),
        }
        self.batch_size.adapt(count, started.elapsed());
        Ok(())
    }

    fn call_batch<T: 'static>(
        &mut self,
        name: &str,
        function: &TypedFunc<BatchParams, Answer<T>>,
        input: BatchIn,
        call: Call<'_>,
    ) -> Result<T, StageError>
    where
        Answer<T>: wasmtime::component::ComponentNamedList + wasmtime::component::Lift + Send + Sync,
    {
        let params = (input, Resource::<FlowContext>::new_borrow(CONTEXT));
        let answer = self.call_guest(name, function, params, Some(call))?;
        self.settle(answer)
    }

    /// The first elements of a batch that have one content type and fit together, and their number.
    fn input_of(&mut self, batch: &Batch<'_>, call: Call<'_>) -> (BatchIn, usize) {
        let label = batch.iter().next().map(|element| self.label(element)).unwrap_or_default();
        let mut input = BatchIn {
            data: Vec::with_capacity(1024),
            ends: Vec::with_capacity(batch.len()),
            sequences: Vec::with_capacity(batch.len()),
            timestamps_ns: Vec::with_capacity(batch.len()),
            content_type: label,
            attributes: Vec::new(),
        };
        for element in batch.iter() {
            let same = self.label(element) == input.content_type;
            let Some(bytes) = element.read(call.ledger).filter(|_| same) else { break };
            if input.data.len() + bytes.len() > MAX_BYTES {
                break;
            }
            input.data.extend_from_slice(bytes);
            input.ends.push(input.data.len() as u32);
            input.sequences.push(element.sequence);
            input.timestamps_ns.push(element.timestamp_ns);
            if self.wants_details && element.companion.is_some() {
                self.add_attributes(element, &mut input);
            }
        }
        let count = input.ends.len();
        if count > 1 {
            call.ledger.copy_many(CopyReason::HostToGuest, count as u64, input.data.len() as u64);
        }
        (input, count)
    }

    fn add_attributes(&self, element: &Element, input: &mut BatchIn) {
        let translator = self.instance.as_ref().and_then(|it| it.store.data().details.translator.as_ref());
        let (Some(translator), Some(companion)) = (translator, &element.companion) else { return };
        let position = input.ends.len() as u32 - 1;
        let made = translator.attributes(companion).into_iter();
        input.attributes.extend(made.map(|it| Attributed { position, name: it.name, value: it.value }));
    }

    /// One result per element, with the outputs made from it.
    fn settle_outputs(
        &mut self,
        mut outputs: Outputs,
        count: usize,
        call: Call<'_>,
        answers: &mut Answers,
        step: impl Fn(usize) -> Step,
    ) -> Result<(), StageError> {
        let origins = std::mem::take(&mut outputs.origins);
        let mut failures = std::mem::take(&mut outputs.failures).into_iter().peekable();
        let made = self.emissions(outputs, call)?;
        if origins.len() != made.len() || origins.iter().any(|at| *at as usize >= count) {
            return Err(broken("the outputs of a batch do not name their elements"));
        }
        let mut made = origins.into_iter().zip(made).peekable();
        for at in 0..count {
            let before = answers.made.len();
            while let Some((_, emission)) = made.next_if(|(origin, _)| *origin as usize <= at) {
                answers.made.push(emission);
            }
            match failures.next_if(|failed| failed.position as usize == at) {
                Some(failed) => {
                    answers.made.truncate(before);
                    answers.settle(Err(self.batch_error(failed)), before);
                }
                None => answers.settle(Ok(step(at)), before),
            }
        }
        Ok(())
    }

    fn settle_verdicts(
        &mut self,
        verdicts: Verdicts,
        count: usize,
        call: Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), StageError> {
        let Verdicts { verdicts: kinds, outputs, reason } = verdicts;
        if kinds.len() != count || kinds.iter().any(|kind| *kind > 4) {
            return Err(broken("a filter must return one verdict for each element of a batch"));
        }
        let reason = clip(reason);
        let step = |at: usize| match kinds[at] {
            0 => Step::Forward,
            1 => Step::Drop,
            2 => Step::Done,
            3 => Step::Block(reason.clone()),
            _ => Step::Hold,
        };
        self.settle_outputs(outputs, count, call, answers, step)?;
        // A replacement takes the place of its element and of all that are held before it.
        let Answers { settled, made } = answers;
        let mut at = 0;
        for (kind, settled) in kinds.iter().zip(settled.iter_mut()) {
            let count = settled.made();
            if *kind == 2 && count == 1 {
                *settled = torvyn_stream::Settled::new(Ok(Step::Replace(made.remove(at))), 0);
            } else {
                at += count;
            }
        }
        Ok(())
    }

    fn settle_pushed(
        &mut self,
        pushed: Pushed,
        count: usize,
        call: Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), StageError> {
        let taken = (pushed.taken as usize).min(count);
        let pauses = pushed.signal == BackpressureSignal::Pause;
        if taken == 0 || (taken < count && !pauses) {
            return Err(broken("a sink that does not pause must take all elements of a batch"));
        }
        if pauses {
            self.wake_ns = Some(self.retry_at_ns(call, RETRY_MIN_NS)?);
        }
        let mut failures = pushed.failures.into_iter().peekable();
        for at in 0..taken {
            let failed = failures.next_if(|failed| failed.position as usize == at);
            let step = if pauses && at + 1 == taken { Step::Pause } else { Step::Done };
            answers.settle(failed.map_or(Ok(step), |failed| Err(self.batch_error(failed))), 0);
        }
        Ok(())
    }

    /// Pulls several elements from a guest into the outbox. `None`: there may be more.
    pub(super) fn pull_batch_call(
        &mut self,
        most: usize,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Option<Pull>, StageError> {
        let Some(BatchCall::Pull(function)) = self.batch_call()? else {
            return Err(broken("the component takes no batches"));
        };
        let started = Instant::now();
        let most = most.min(self.batch_size.most());
        let answer = self.call_guest("pull-batch", &function, (most as u32,), Some(call))?;
        let mut pulled = self.settle(answer)?;
        let failed = pulled.outputs.failures.pop();
        out.made = self.emissions(pulled.outputs, call)?;
        if out.made.len() > most {
            return Err(broken("a source returned more elements than it was asked for"));
        }
        self.batch_size.adapt(out.made.len(), started.elapsed());
        if let Some(failed) = failed {
            return Err(self.batch_error(failed));
        }
        if !out.made.is_empty() {
            self.idle_since_ns = None;
        }
        match pulled.progress {
            Progress::More => Ok(None),
            Progress::End => Ok(Some(Pull::End(self.ending()))),
            Progress::Pending => {
                let wait_ns = self.idle_wait_ns(call.now_ns);
                Ok(Some(Pull::Pending(Some(self.retry_at_ns(call, wait_ns)?))))
            }
        }
    }

    fn batch_error(&mut self, failed: Failed) -> StageError {
        self.settle::<()>((Err(failed.error),)).err().unwrap_or_else(|| broken("no error"))
    }

    /// The guest's outputs as emissions.
    fn emissions(&mut self, outputs: Outputs, call: Call<'_>) -> Result<Vec<Emission>, StageError> {
        let named = match outputs.ends.is_empty() {
            true => ContentName::TEXT,
            false => parse_name(&outputs.content_type)?,
        };
        let mut made = Vec::with_capacity(outputs.ends.len());
        let mut start = 0;
        for end in &outputs.ends {
            let bytes = outputs.data.get(start..*end as usize);
            let bytes = bytes.ok_or_else(|| broken("the payloads of a batch's outputs overlap"))?;
            start = *end as usize;
            let (payload, content_type) = Payload::from_slice(bytes).named(named.clone());
            let len = bytes.len() as u32;
            made.push(Emission { payload, len, content_type, ..Emission::text("") });
        }
        if !made.is_empty() {
            call.ledger.copy_many(CopyReason::GuestToHost, made.len() as u64, start as u64);
        }
        for detail in outputs.details {
            self.add_detail(detail, &mut made)?;
        }
        Ok(made)
    }

    fn add_detail(&mut self, detail: OutputDetail, made: &mut [Emission]) -> Result<(), StageError> {
        let Some(emission) = made.get_mut(detail.position as usize) else {
            return Err(broken("a detail of a batch names no output"));
        };
        if let Some(name) = detail.content_type {
            let bare = emission.payload.bare();
            (emission.payload, emission.content_type) = bare.named(parse_name(&name)?);
        }
        emission.delivery = Delivery::kept_if(detail.keep);
        if let Some(attributes) = detail.attributes {
            let host = self.instance()?.store.data_mut();
            let made = host.companion_of(&attributes).map_err(|error| broken(&format!("{error:#}")))?;
            let Some((companion, charge)) = made else { return Ok(()) };
            emission.companion = Some(companion);
            if charge.bytes() > super::stage::FREE_BYTES {
                let payload = std::mem::replace(&mut emission.payload, Payload::from_slice(b""));
                emission.payload = payload.charged(charge);
            }
        }
        Ok(())
    }
}

fn parse_name(name: &str) -> Result<ContentName, StageError> {
    let named = content_name(name).map_err(|error| broken(&error.to_string()))?;
    Ok(named.unwrap_or(ContentName::BINARY))
}
