//! A Python component as a stage: its methods are fetched at the start and called with little overhead.
//!
//! Every method of `PyStage` runs inside an attached turn, so `assume_attached` is sound here.

use std::ptr::NonNull;

use pyo3::prelude::*;
use pyo3::types::PyInt;
use torvyn_reactor::Role;
use torvyn_stream::{Answers, Batch, Call, Element, End, Outbox, Pull, Settled, Stage, StageError, Step};

use crate::component::batch_results::{interpret_batch, pull_batch_step};
use crate::component::call::{Next, advance_of, call_none, call_one, next};
use crate::component::interpret::{Answer, emit_item, filter_step, made_step, pull_item, sink_step};
use crate::component::methods::{Methods, none_item, over, tell};
use crate::element::batch::PyBatch;
use crate::element::convert::{NodeContext, companion, component_error, end_object, end_of};
use crate::symbols::Symbols;

pub struct PyStage {
    methods: Methods,
    node_context: NodeContext,
    symbols: &'static Symbols,
    /// How many items the iterator has returned.
    given: u32,
    role: Role,
}

// One is allocated for every Python component of every flow.
const _: () = assert!(size_of::<PyStage>() == 80);

impl PyStage {
    pub fn new(
        component: &Bound<'_, PyAny>,
        role: Role,
        ports: &[String],
        inputs: &[String],
        node_context: NodeContext,
    ) -> PyResult<Self> {
        let symbols = Symbols::get(component.py())?;
        let methods = Methods::of(component, role, ports, inputs, symbols)?;
        Ok(Self { methods, node_context, symbols, given: 0, role })
    }

    fn answer(
        &mut self,
        py: Python<'_>,
        value: Bound<'_, PyAny>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        match made_step(py, self.symbols, self.role, value, out)? {
            Answer::Step(step) => Ok(step),
            Answer::Iterator(iterator) => {
                self.methods.keep_rest(iterator.unbind());
                self.emit_next(py, out)
            }
        }
    }

    /// Emits one more item of the generator; the next is fetched when this one has been sent.
    fn emit_next(&mut self, py: Python<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        let Some(rest) = self.methods.rare(|more| &more.rest) else { return Ok(Step::Done) };
        let advance = advance_of(rest.bind(py));
        let mut fetched = next(py, rest, advance);
        while matches!(&fetched, Ok(Next::Item(item)) if item.is_none()) {
            fetched = next(py, rest, advance);
        }
        match fetched {
            Ok(Next::Item(item)) => {
                emit_item(py, self.symbols, self.role, &item, out)?;
                Ok(Step::More)
            }
            Ok(Next::Stop(_)) => {
                self.methods.take_rest();
                Ok(Step::Done)
            }
            Err(error) => {
                self.methods.take_rest();
                Err(error)
            }
        }
    }

    /// A component that has only the batch method gets a batch of one.
    fn accept_alone(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let mut answers = Answers::default();
        let batch = Batch { first: std::slice::from_mut(element), second: &mut [] };
        self.accept_batch(batch, call, &mut answers)?;
        out.made.append(&mut answers.made);
        answers.settled.pop().map_or(Ok(Step::Done), Settled::outcome)
    }

    /// The next element of a source that has only the batch method.
    fn pull_alone(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        let mut out = Outbox::default();
        let pull = self.pull_many(1, call, &mut out)?;
        Ok(pull.or_else(|| out.made.pop().map(Pull::Ready)).unwrap_or(Pull::Pending(None)))
    }

    fn release(&mut self, py: Python<'_>) {
        self.methods.release(py);
    }
}

impl Stage for PyStage {
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        if self.methods.single.is_none() && self.methods.batch.is_some() {
            return self.pull_alone(call);
        }
        let method = self.methods.single.as_ref().ok_or_else(over)?;
        let Some(advance) = self.methods.advance else {
            let value = call_none(py, method)?;
            return pull_item(py, self.symbols, value, call.now_ns);
        };
        match next(py, method, advance)? {
            Next::Item(value) if value.is_none() => Err(none_item(self.given)),
            Next::Item(value) => {
                self.given = self.given.saturating_add(1);
                pull_item(py, self.symbols, value, call.now_ns)
            }
            Next::Stop(value) => {
                let end = value.and_then(|value| end_of(self.symbols, &value));
                Ok(Pull::End(end.unwrap_or_else(|| End::because("stop"))))
            }
        }
    }

    fn pulls_many(&self) -> bool {
        self.role == Role::Source && self.methods.batch.is_some()
    }

    fn pull_many(
        &mut self,
        most: usize,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Option<Pull>, StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let method = self.methods.batch.as_ref().ok_or_else(over)?;
        let most_object = PyInt::new(py, most);
        let value = call_one(py, method, most_object.as_ptr())?;
        pull_batch_step(self.symbols, &value, most, call.now_ns, out)
    }

    #[inline]
    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        if self.methods.single.is_none() {
            return self.accept_alone(element, call, out);
        }
        let argument = companion(py, self.symbols, element, &self.node_context)
            .map_err(|error| component_error(py, error))?;
        let method = self.methods.single.as_ref().ok_or_else(over)?;
        let value = call_one(py, method, argument)?;
        if let Some(timer) = self.methods.timer() {
            timer.forget();
        }
        match self.role {
            Role::Filter => filter_step(py, self.symbols, &value, out),
            Role::Sink => sink_step(self.symbols, &value),
            Role::Router => self.methods.route(py, &value, out),
            _ if value.as_ptr() == argument && self.role == Role::Processor => Ok(Step::Forward),
            _ => self.answer(py, value, out),
        }
    }

    fn batch_limit(&self) -> usize {
        if self.methods.batch.is_some() && self.role != Role::Source { usize::MAX } else { 1 }
    }

    fn accept_batch(
        &mut self,
        mut batch: Batch<'_>,
        _call: Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let method = self.methods.batch.as_ref().ok_or_else(over)?;
        let lent =
            PyBatch::lend(py, &mut batch, &self.node_context).map_err(|error| component_error(py, error))?;
        let value = call_one(py, method, lent.as_ptr());
        if let Some(timer) = self.methods.timer() {
            timer.forget();
        }
        PyBatch::take_back(&lent).map_err(|error| component_error(py, error))?;
        interpret_batch(self.symbols, self.role, &value?, &batch, answers)
    }

    fn set_input(&mut self, input: u16) {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        if let Some(inputs) = self.methods.more.as_mut().and_then(|more| more.inputs.as_mut()) {
            inputs.set(py, input);
        }
    }

    fn due(&self) -> Option<u64> {
        let timer = self.methods.timer()?;
        // SAFETY: turns of flows with Python stages run attached.
        timer.due_ns(unsafe { Python::assume_attached() })
    }

    fn tick(&mut self, _call: Call<'_>, out: &mut Outbox) -> Result<(), StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let Some(timer) = self.methods.timer() else { return Ok(()) };
        let value = timer.fire(py)?;
        let mut step = self.answer(py, value, out)?;
        while matches!(step, Step::More) {
            step = self.emit_next(py, out)?;
        }
        Ok(())
    }

    fn resume(&mut self, _call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        self.emit_next(unsafe { Python::assume_attached() }, out)
    }

    fn flush(&mut self, _call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let Some(flush) = &self.methods.last else { return Ok(Step::Done) };
        let value = call_none(py, flush)?;
        if self.role == Role::Filter && value.is_instance(self.symbols.verdict_type.bind(py)).unwrap_or(false)
        {
            return filter_step(py, self.symbols, &value, out);
        }
        self.answer(py, value, out)
    }

    fn complete(&mut self, end: &End) -> Result<(), StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let Some(complete) = &self.methods.last else { return Ok(()) };
        let end = end_object(py, self.symbols, end).map_err(|error| component_error(py, error))?;
        call_one(py, complete, end.as_ptr()).map(|_| ())
    }

    fn interrupt(&mut self) {
        self.methods.take_rest();
    }

    fn pressure(&mut self, active: bool) {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let signal = if active { &self.symbols.pause } else { &self.symbols.ready };
        tell(py, self.methods.rare(|more| &more.notify), signal);
    }

    fn wants_acknowledgements(&self) -> bool {
        self.methods.rare(|more| &more.acknowledge).is_some()
    }

    fn acknowledge(&mut self, count: u64) {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        tell(py, self.methods.rare(|more| &more.acknowledge), count);
    }

    fn held_elements(&self) -> Option<usize> {
        // SAFETY: turns of flows with Python stages run attached.
        self.methods.held_elements(unsafe { Python::assume_attached() })
    }

    fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {
        self.methods.visit(visit);
    }

    fn border_bytes(&self) -> usize {
        size_of::<Self>() + self.methods.heap_bytes()
    }

    fn close(&mut self) {
        // SAFETY: turns of flows with Python stages run attached.
        self.release(unsafe { Python::assume_attached() });
    }
}
