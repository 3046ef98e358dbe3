//! A Python component as a stage: its methods are fetched at the start and called with little overhead.
//!
//! Every method of `PyStage` runs inside an attached turn, so `assume_attached` is sound here.

use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use torvyn_reactor::{Role, method_name};
use torvyn_stream::{
    Answers, Batch, Call, Element, End, ErrorKind, Outbox, Pull, Settled, Stage, StageError, Step,
};

use crate::component::batch_results::{interpret_batch, pull_batch_step};
use crate::component::call::{Next, advance_of, call_none, call_one, next};
use crate::component::interpret::{
    Answer, PortNames, emit_item, filter_step, made_step, pull_step, sink_step,
};
use crate::component::named_inputs::NamedInputs;
use crate::component::timer::Timer;
use crate::element::batch::PyBatch;
use crate::element::convert::{NodeContext, companion, component_error, end_object, end_of};
use crate::symbols::Symbols;

pub struct PyStage {
    role: Role,
    /// `evaluate`, `process`, ...; for a source that is iterated, its iterator.
    method: Option<Py<PyAny>>,
    /// `evaluate_batch`, `process_batch`, ...; for a source that is not iterated, `pull_batch`.
    batch_method: Option<Py<PyAny>>,
    /// Advances the iterator of a source that is iterated.
    advance: Option<ffi::iternextfunc>,
    flush: Option<Py<PyAny>>,
    complete: Option<Py<PyAny>>,
    notify: Option<Py<PyAny>>,
    timer: Option<Box<Timer>>,
    held_elements: Option<Py<PyAny>>,
    /// Kept after the end of the stream: the last elements are settled later.
    acknowledge: Option<Py<PyAny>>,
    ports: PortNames,
    inputs: Option<Box<NamedInputs>>,
    node_context: NodeContext,
    /// How many items the iterator has returned.
    given: u64,
    /// The rest of a generator that `process` returned.
    rest: Option<Py<PyAny>>,
    symbols: &'static Symbols,
}

impl PyStage {
    pub fn new(
        component: &Bound<'_, PyAny>,
        role: Role,
        ports: &[String],
        inputs: &[String],
        node_context: NodeContext,
    ) -> PyResult<Self> {
        let py = component.py();
        let symbols = Symbols::get(py)?;
        let fetch =
            |name: &str| -> PyResult<Option<Py<PyAny>>> { Ok(Some(component.getattr(name)?.unbind())) };
        let mut advance = None;
        let method = match role {
            Role::Source if component.hasattr("__iter__")? => {
                let iterator = component.try_iter()?.into_any();
                advance = Some(advance_of(&iterator));
                Some(iterator.unbind())
            }
            role => component.getattr_opt(method_name(role))?.map(Bound::unbind),
        };
        let batch_method = component.getattr_opt(format!("{}_batch", method_name(role)))?.map(Bound::unbind);
        let flushes = matches!(role, Role::Processor | Role::Aggregator | Role::Filter);
        Ok(Self {
            role,
            method,
            batch_method,
            advance,
            flush: if flushes { component.getattr("flush").ok().map(Bound::unbind) } else { None },
            complete: if role == Role::Sink { fetch("complete")? } else { None },
            notify: if role == Role::Source { own_notification(component, symbols)? } else { None },
            acknowledge: if role == Role::Source {
                component.getattr("acknowledge").ok().map(Bound::unbind)
            } else {
                None
            },
            timer: Timer::of(component)?,
            held_elements: component.getattr("held_elements").ok().map(Bound::unbind),
            ports: PortNames(interned(py, ports)),
            inputs: NamedInputs::of(component, interned(py, inputs))?,
            node_context,
            given: 0,
            rest: None,
            symbols,
        })
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
                self.rest = Some(iterator.unbind());
                self.emit_next(py, out)
            }
        }
    }

    /// Emits one more item of the generator; the next is fetched when this one has been sent.
    fn emit_next(&mut self, py: Python<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        let Some(rest) = &self.rest else { return Ok(Step::Done) };
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
                self.rest = None;
                Ok(Step::Done)
            }
            Err(error) => {
                self.rest = None;
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
        let iterator = if self.advance.is_some() { self.method.take() } else { None };
        for left in [self.rest.take(), iterator].into_iter().flatten() {
            // A generator is closed so that its `finally` runs now and not at its collection.
            if let Ok(close) = left.bind(py).getattr("close")
                && let Err(error) = close.call0()
            {
                error.write_unraisable(py, Some(left.bind(py)));
            }
        }
        self.method = None;
        self.batch_method = None;
        self.flush = None;
        self.complete = None;
        self.notify = None;
        self.timer = None;
        self.held_elements = None;
        self.inputs = None;
    }
}

/// A source that does not override `notify_backpressure` is not called for every time that a queue fills up.
fn own_notification(component: &Bound<'_, PyAny>, symbols: &Symbols) -> PyResult<Option<Py<PyAny>>> {
    let method = component.getattr("notify_backpressure")?;
    let function = method.getattr_opt("__func__")?;
    let is_inherited = function.is_some_and(|function| function.is(&symbols.notify_nobody));
    Ok((!is_inherited).then(|| method.unbind()))
}

fn interned(py: Python<'_>, names: &[String]) -> Vec<Py<PyString>> {
    names.iter().map(|name| PyString::intern(py, name).unbind()).collect()
}

/// Only `pull` ends a stream with None. An iterator ends by itself, so a None in it is a mistake.
fn none_item(position: u64) -> StageError {
    let message = format!("its iterator yielded None as item {position}; None is not an element");
    StageError::new(ErrorKind::Contract, message)
}

fn over() -> StageError {
    StageError::new(ErrorKind::Internal, "the component was called after the end of its stream")
}

impl Stage for PyStage {
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        if self.method.is_none() && self.batch_method.is_some() {
            return self.pull_alone(call);
        }
        let method = self.method.as_ref().ok_or_else(over)?;
        let Some(advance) = self.advance else {
            let value = call_none(py, method)?;
            return pull_step(py, self.symbols, &value, call.now_ns);
        };
        match next(py, method, advance)? {
            Next::Item(value) if value.is_none() => Err(none_item(self.given)),
            Next::Item(value) => {
                self.given += 1;
                pull_step(py, self.symbols, &value, call.now_ns)
            }
            Next::Stop(value) => {
                let end = value.and_then(|value| end_of(self.symbols, &value));
                Ok(Pull::End(end.unwrap_or_else(|| End::because("stop"))))
            }
        }
    }

    fn pulls_many(&self) -> bool {
        self.role == Role::Source && self.batch_method.is_some()
    }

    fn pull_many(
        &mut self,
        most: usize,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Option<Pull>, StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let method = self.batch_method.as_ref().ok_or_else(over)?;
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
        if self.method.is_none() {
            return self.accept_alone(element, call, out);
        }
        let argument = companion(py, self.symbols, element, &self.node_context)
            .map_err(|error| component_error(py, error))?;
        let method = self.method.as_ref().ok_or_else(over)?;
        let value = call_one(py, method, argument)?;
        if let Some(timer) = &self.timer {
            timer.forget();
        }
        match self.role {
            Role::Filter => filter_step(py, self.symbols, &value, out),
            Role::Sink => sink_step(self.symbols, &value),
            Role::Router => self.ports.route(py, &value, out),
            _ if value.as_ptr() == argument && self.role == Role::Processor => Ok(Step::Forward),
            _ => self.answer(py, value, out),
        }
    }

    fn batch_limit(&self) -> usize {
        if self.batch_method.is_some() && self.role != Role::Source { usize::MAX } else { 1 }
    }

    fn accept_batch(
        &mut self,
        mut batch: Batch<'_>,
        _call: Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let method = self.batch_method.as_ref().ok_or_else(over)?;
        let lent =
            PyBatch::lend(py, &mut batch, &self.node_context).map_err(|error| component_error(py, error))?;
        let value = call_one(py, method, lent.as_ptr());
        if let Some(timer) = &self.timer {
            timer.forget();
        }
        PyBatch::take_back(&lent).map_err(|error| component_error(py, error))?;
        interpret_batch(self.symbols, self.role, &value?, &batch, answers)
    }

    fn set_input(&mut self, input: u16) {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        if let Some(inputs) = &mut self.inputs {
            inputs.set(py, input);
        }
    }

    fn due(&self) -> Option<u64> {
        let timer = self.timer.as_ref()?;
        // SAFETY: turns of flows with Python stages run attached.
        timer.due_ns(unsafe { Python::assume_attached() })
    }

    fn tick(&mut self, _call: Call<'_>, out: &mut Outbox) -> Result<(), StageError> {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let Some(timer) = &self.timer else { return Ok(()) };
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
        let Some(flush) = &self.flush else { return Ok(Step::Done) };
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
        let Some(complete) = &self.complete else { return Ok(()) };
        let end = end_object(py, self.symbols, end).map_err(|error| component_error(py, error))?;
        call_one(py, complete, end.as_ptr()).map(|_| ())
    }

    fn interrupt(&mut self) {
        self.rest = None;
    }

    fn pressure(&mut self, active: bool) {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        let signal = if active { &self.symbols.pause } else { &self.symbols.ready };
        if let Some(notify) = &self.notify
            && let Err(error) = notify.call1(py, (signal,))
        {
            // A notification has no answer: report its failure and go on.
            error.write_unraisable(py, Some(notify.bind(py)));
        }
    }

    fn wants_acknowledgements(&self) -> bool {
        self.acknowledge.is_some()
    }

    fn acknowledge(&mut self, count: u64) {
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        if let Some(acknowledge) = &self.acknowledge
            && let Err(error) = acknowledge.call1(py, (count,))
        {
            error.write_unraisable(py, Some(acknowledge.bind(py)));
        }
    }

    fn held_elements(&self) -> Option<usize> {
        let method = self.held_elements.as_ref()?;
        // SAFETY: turns of flows with Python stages run attached.
        let py = unsafe { Python::assume_attached() };
        // A component that cannot say holds everything it took.
        Some(method.call0(py).and_then(|held| held.extract(py)).unwrap_or(usize::MAX))
    }

    fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {
        let kept = [
            &self.method,
            &self.batch_method,
            &self.flush,
            &self.complete,
            &self.notify,
            &self.acknowledge,
            &self.rest,
            &self.held_elements,
        ];
        let timer = self.timer.iter().flat_map(|timer| timer.methods());
        let inputs = self.inputs.iter().map(|inputs| inputs.method());
        for object in kept.into_iter().flatten().chain(timer).chain(inputs) {
            if let Some(pointer) = NonNull::new(object.as_ptr().cast()) {
                visit(pointer);
            }
        }
    }

    fn close(&mut self) {
        // SAFETY: turns of flows with Python stages run attached.
        self.release(unsafe { Python::assume_attached() });
    }
}
