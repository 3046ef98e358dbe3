//! The methods of a Python component, fetched when its flow starts.

use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use torvyn_reactor::{Role, method_name};
use torvyn_stream::{ErrorKind, Outbox, StageError, Step};

use crate::component::call::advance_of;
use crate::component::interpret::PortNames;
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
    /// `flush`; `complete` of a sink.
    pub last: Option<Py<PyAny>>,
    pub more: Option<Box<MoreMethods>>,
}

/// What few components have.
#[derive(Default)]
pub struct MoreMethods {
    pub notify: Option<Py<PyAny>>,
    pub timer: Option<Box<Timer>>,
    pub held_elements: Option<Py<PyAny>>,
    /// Kept after the end of the stream: the last elements are settled later.
    pub acknowledge: Option<Py<PyAny>>,
    pub inputs: Option<Box<NamedInputs>>,
    /// The ports of a router.
    pub ports: Option<PortNames>,
    /// The rest of a generator that `process` returned.
    pub rest: Option<Py<PyAny>>,
}

impl MoreMethods {
    fn of(
        component: &Bound<'_, PyAny>,
        role: Role,
        ports: &[String],
        inputs: &[String],
        symbols: &Symbols,
    ) -> PyResult<Option<Box<Self>>> {
        let py = component.py();
        let is_source = role == Role::Source;
        let found = Self {
            notify: if is_source { own_notification(component, symbols)? } else { None },
            timer: Timer::of(component)?,
            held_elements: optional(component, "held_elements"),
            acknowledge: if is_source { optional(component, "acknowledge") } else { None },
            inputs: NamedInputs::of(component, interned(py, inputs))?,
            ports: (role == Role::Router).then(|| PortNames(interned(py, ports))),
            rest: None,
        };
        let has_methods =
            found.notify.is_some() || found.held_elements.is_some() || found.acknowledge.is_some();
        let is_used = has_methods || found.timer.is_some() || found.inputs.is_some() || found.ports.is_some();
        Ok(is_used.then(|| Box::new(found)))
    }

    /// What it takes, with its parts.
    fn size_bytes(&self) -> usize {
        size_of::<Self>()
            + self.timer.as_ref().map_or(0, |_| size_of::<Timer>())
            + self.inputs.as_ref().map_or(0, |inputs| inputs.size_bytes())
            + self.ports.as_ref().map_or(0, |ports| ports.0.capacity() * size_of::<Py<PyString>>())
    }
}

impl Methods {
    pub fn of(
        component: &Bound<'_, PyAny>,
        role: Role,
        ports: &[String],
        inputs: &[String],
        symbols: &Symbols,
    ) -> PyResult<Self> {
        let (single, advance) = single_of(component, role)?;
        let batch = component.getattr_opt(format!("{}_batch", method_name(role)))?.map(Bound::unbind);
        let last = match role {
            Role::Sink => Some(component.getattr("complete")?.unbind()),
            Role::Processor | Role::Aggregator | Role::Filter => optional(component, "flush"),
            Role::Source | Role::Router => None,
        };
        let more = MoreMethods::of(component, role, ports, inputs, symbols)?;
        Ok(Self { single, batch, advance, last, more })
    }

    /// The method of that kind, if the component has it.
    #[inline]
    pub fn rare(&self, method: impl Fn(&MoreMethods) -> &Option<Py<PyAny>>) -> Option<&Py<PyAny>> {
        self.more.as_deref().and_then(|more| method(more).as_ref())
    }

    #[inline]
    pub fn timer(&self) -> Option<&Timer> {
        self.more.as_deref()?.timer.as_deref()
    }

    /// How many elements the component says it holds.
    pub fn held_elements(&self, py: Python<'_>) -> Option<usize> {
        let method = self.rare(|more| &more.held_elements)?;
        // A component that cannot say holds everything it took.
        Some(method.call0(py).and_then(|held| held.extract(py)).unwrap_or(usize::MAX))
    }

    /// The ports that `route` named.
    pub fn route(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let ports = self.more.as_deref().and_then(|more| more.ports.as_ref()).ok_or_else(over)?;
        ports.route(py, value, out)
    }

    /// Keeps the rest of a generator.
    pub fn keep_rest(&mut self, rest: Py<PyAny>) {
        self.more.get_or_insert_default().rest = Some(rest);
    }

    pub fn take_rest(&mut self) -> Option<Py<PyAny>> {
        self.more.as_mut()?.rest.take()
    }

    /// Forgets what the end of the stream makes useless, and closes what is iterated.
    pub fn release(&mut self, py: Python<'_>) {
        if let Some(rest) = self.take_rest() {
            close_generator(py, &rest);
        }
        if let (Some(iterator), true) = (self.single.take(), self.advance.is_some()) {
            close_generator(py, &iterator);
        }
        self.batch = None;
        self.last = None;
        if let Some(more) = &mut self.more {
            let acknowledge = more.acknowledge.take();
            **more = MoreMethods { acknowledge, ..MoreMethods::default() };
        }
    }

    /// What its parts take on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.more.as_ref().map_or(0, |more| more.size_bytes())
    }

    /// Visits the objects that it keeps.
    pub fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {
        let own = [&self.single, &self.batch, &self.last].into_iter().flatten();
        let more = self.more.iter().flat_map(|more| {
            let kept = [&more.notify, &more.acknowledge, &more.held_elements, &more.rest];
            let timer = more.timer.iter().flat_map(|timer| timer.methods());
            let inputs = more.inputs.iter().map(|inputs| inputs.method());
            kept.into_iter().flatten().chain(timer).chain(inputs)
        });
        own.chain(more).filter_map(|object| NonNull::new(object.as_ptr().cast())).for_each(visit);
    }
}

fn optional(component: &Bound<'_, PyAny>, name: &str) -> Option<Py<PyAny>> {
    component.getattr(name).ok().map(Bound::unbind)
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
pub fn tell<'py>(py: Python<'py>, method: Option<&Py<PyAny>>, argument: impl IntoPyObject<'py>) {
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
pub fn none_item(position: u32) -> StageError {
    let message = format!("its iterator yielded None as item {position}; None is not an element");
    StageError::new(ErrorKind::Contract, message)
}

pub fn over() -> StageError {
    StageError::new(ErrorKind::Internal, "the component was called after the end of its stream")
}
