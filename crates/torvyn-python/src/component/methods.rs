//! The methods of a Python component, fetched when its flow starts.

use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use torvyn_reactor::{Role, method_name};
use torvyn_stream::{ErrorKind, StageError};

use crate::component::call::advance_of;
use crate::component::named_inputs::NamedInputs;
use crate::component::timer::Timer;
use crate::symbols::Symbols;

pub struct Methods {
    /// `evaluate`, `process`, ...; for a source that is iterated, its iterator.
    pub single: Option<Py<PyAny>>,
    /// `evaluate_batch`, `process_batch`, ...; for a source that is not iterated, `pull_batch`.
    pub batch: Option<Py<PyAny>>,
    /// Advances the iterator of a source that is iterated.
    pub advance: Option<ffi::iternextfunc>,
    pub flush: Option<Py<PyAny>>,
    pub complete: Option<Py<PyAny>>,
    pub notify: Option<Py<PyAny>>,
    pub timer: Option<Box<Timer>>,
    pub held_elements: Option<Py<PyAny>>,
    /// Kept after the end of the stream: the last elements are settled later.
    pub acknowledge: Option<Py<PyAny>>,
    pub inputs: Option<Box<NamedInputs>>,
}

impl Methods {
    pub fn of(
        component: &Bound<'_, PyAny>,
        role: Role,
        inputs: &[String],
        symbols: &Symbols,
    ) -> PyResult<Self> {
        let (single, advance) = single_of(component, role)?;
        let batch = component.getattr_opt(format!("{}_batch", method_name(role)))?.map(Bound::unbind);
        let optional = |name: &str, has: bool| match has {
            true => component.getattr(name).ok().map(Bound::unbind),
            false => None,
        };
        let flushes = matches!(role, Role::Processor | Role::Aggregator | Role::Filter);
        let is_source = role == Role::Source;
        Ok(Self {
            single,
            batch,
            advance,
            flush: optional("flush", flushes),
            complete: match role {
                Role::Sink => Some(component.getattr("complete")?.unbind()),
                _ => None,
            },
            notify: if is_source { own_notification(component, symbols)? } else { None },
            timer: Timer::of(component)?,
            held_elements: optional("held_elements", true),
            acknowledge: optional("acknowledge", is_source),
            inputs: NamedInputs::of(component, interned(component.py(), inputs))?,
        })
    }

    /// How many elements the component says it holds.
    pub fn held_elements(&self, py: Python<'_>) -> Option<usize> {
        let method = self.held_elements.as_ref()?;
        // A component that cannot say holds everything it took.
        Some(method.call0(py).and_then(|held| held.extract(py)).unwrap_or(usize::MAX))
    }

    /// Forgets what the end of the stream makes useless, and closes the iterator of a source.
    pub fn release(&mut self, py: Python<'_>) {
        if let (Some(iterator), true) = (self.single.take(), self.advance.is_some()) {
            close_generator(py, &iterator);
        }
        self.batch = None;
        self.flush = None;
        self.complete = None;
        self.notify = None;
        self.timer = None;
        self.held_elements = None;
        self.inputs = None;
    }

    /// Visits the objects that it keeps.
    pub fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {
        let kept = [
            &self.single,
            &self.batch,
            &self.flush,
            &self.complete,
            &self.notify,
            &self.acknowledge,
            &self.held_elements,
        ];
        let timer = self.timer.iter().flat_map(|timer| timer.methods());
        let inputs = self.inputs.iter().map(|inputs| inputs.method());
        let all = kept.into_iter().flatten().chain(timer).chain(inputs);
        all.filter_map(|object| NonNull::new(object.as_ptr().cast())).for_each(visit);
    }
}

/// The method that is called for each element, or the iterator of a source and what advances it.
fn single_of(
    component: &Bound<'_, PyAny>,
    role: Role,
) -> PyResult<(Option<Py<PyAny>>, Option<ffi::iternextfunc>)> {
    if role == Role::Source && component.hasattr("__iter__")? {
        let iterator = component.try_iter()?.into_any();
        let advance = advance_of(&iterator);
        return Ok((Some(iterator.unbind()), Some(advance)));
    }
    Ok((component.getattr_opt(method_name(role))?.map(Bound::unbind), None))
}

/// A source that does not override `notify_backpressure` is not called every time that a queue fills up.
fn own_notification(component: &Bound<'_, PyAny>, symbols: &Symbols) -> PyResult<Option<Py<PyAny>>> {
    let method = component.getattr("notify_backpressure")?;
    let function = method.getattr_opt("__func__")?;
    let is_inherited = function.is_some_and(|function| function.is(&symbols.notify_nobody));
    Ok((!is_inherited).then(|| method.unbind()))
}

pub fn interned(py: Python<'_>, names: &[String]) -> Vec<Py<PyString>> {
    names.iter().map(|name| PyString::intern(py, name).unbind()).collect()
}

/// Calls a method that has no answer: its failure is reported, and the flow goes on.
pub fn tell<'py>(py: Python<'py>, method: &Option<Py<PyAny>>, argument: impl IntoPyObject<'py>) {
    if let Some(method) = method
        && let Err(error) = method.call1(py, (argument,))
    {
        error.write_unraisable(py, Some(method.bind(py)));
    }
}

/// Closes a generator so that its `finally` runs now and not at its collection.
pub fn close_generator(py: Python<'_>, generator: &Py<PyAny>) {
    let generator = generator.bind(py);
    if let Ok(close) = generator.getattr("close")
        && let Err(error) = close.call0()
    {
        error.write_unraisable(py, Some(generator));
    }
}

/// Only `pull` ends a stream with None. An iterator ends by itself, so a None in it is a mistake.
pub fn none_item(position: u64) -> StageError {
    let message = format!("its iterator yielded None as item {position}; None is not an element");
    StageError::new(ErrorKind::Contract, message)
}

pub fn over() -> StageError {
    StageError::new(ErrorKind::Internal, "the component was called after the end of its stream")
}
