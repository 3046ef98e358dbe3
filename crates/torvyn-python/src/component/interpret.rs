//! Turns a component's result into a step, by role; for inline calls and for results of offloaded stages.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use torvyn_reactor::Role;
use torvyn_stream::{Emission, ErrorKind, Outbox, Pull, StageError, Step};

use crate::element::convert::{component_error, end_of, type_name, wrong_result};
use crate::element::emission::{emission, emit_text, json_emission, text_len, text_of_len};
use crate::enums::{VerdictKind, from_python};
use crate::symbols::Symbols;

/// The result of a processor or aggregator.
pub enum Answer<'py> {
    Step(Step),
    /// An iterator whose items have not been fetched.
    Iterator(Bound<'py, PyAny>),
}

#[inline]
pub fn filter_step(
    py: Python<'_>,
    symbols: &Symbols,
    value: &Bound<'_, PyAny>,
    out: &mut Outbox,
) -> Result<Step, StageError> {
    let pointer = value.as_ptr();
    // SAFETY: the two singletons are compared, not used.
    unsafe {
        if pointer == ffi::Py_True() {
            return Ok(Step::Forward);
        }
        if pointer == ffi::Py_False() {
            return Ok(Step::Drop);
        }
    }
    if pointer == symbols.verdict_pass.as_ptr() {
        return Ok(Step::Forward);
    }
    if pointer == symbols.verdict_drop.as_ptr() {
        return Ok(Step::Drop);
    }
    if pointer == symbols.verdict_hold.as_ptr() {
        return Ok(Step::Hold);
    }
    if !value.is_instance(symbols.verdict_type.bind(py)).unwrap_or(false) {
        return Err(wrong_result(Role::Filter, value));
    }
    verdict(py, symbols, value, out).map_err(|error| component_error(py, error))?
}

fn verdict(
    py: Python<'_>,
    symbols: &Symbols,
    value: &Bound<'_, PyAny>,
    out: &mut Outbox,
) -> PyResult<Result<Step, StageError>> {
    Ok(match from_python(&value.getattr("kind")?)? {
        VerdictKind::Pass => Ok(Step::Forward),
        VerdictKind::Drop => Ok(Step::Drop),
        VerdictKind::Hold => Ok(Step::Hold),
        VerdictKind::Block => {
            let reason = value.getattr("reason")?.extract::<Option<String>>()?.unwrap_or_default();
            emit_list(py, symbols, &value.getattr("text")?, out).map(|_| Step::Block(reason))
        }
        VerdictKind::Replace => {
            let text = value.getattr("text")?;
            match emit_list(py, symbols, &text, out) {
                Ok(false) => {}
                Ok(true) if out.made.is_empty() => return Ok(Ok(Step::Drop)),
                Ok(true) => return Ok(Ok(Step::Done)),
                Err(error) => return Ok(Err(error)),
            }
            match emission(py, symbols, &text) {
                Ok(Some(made)) => Ok(Step::Replace(made)),
                Ok(None) => json_or_wrong(py, symbols, Role::Filter, &text).map(Step::Replace),
                Err(error) => Err(error),
            }
        }
    })
}

/// Emits the items of a list. False: the value is not a list.
fn emit_list(
    py: Python<'_>,
    symbols: &Symbols,
    value: &Bound<'_, PyAny>,
    out: &mut Outbox,
) -> Result<bool, StageError> {
    let Ok(list) = value.cast::<PyList>() else { return Ok(false) };
    list.iter().try_for_each(|item| emit_item(py, symbols, Role::Filter, &item, out))?;
    Ok(true)
}

/// Emits nothing for None, one item, or the items of a list; returns an iterator as it is.
#[inline]
pub fn made_step<'py>(
    py: Python<'py>,
    symbols: &Symbols,
    role: Role,
    value: Bound<'py, PyAny>,
    out: &mut Outbox,
) -> Result<Answer<'py>, StageError> {
    if value.is_none() {
        return Ok(Answer::Step(Step::Done));
    }
    if let Some(made) = emission(py, symbols, &value)? {
        out.emit(made);
        return Ok(Answer::Step(Step::Done));
    }
    if let Ok(list) = value.cast::<PyList>() {
        for item in list {
            emit_item(py, symbols, role, &item, out)?;
        }
        return Ok(Answer::Step(Step::Done));
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        for item in tuple {
            emit_item(py, symbols, role, &item, out)?;
        }
        return Ok(Answer::Step(Step::Done));
    }
    // SAFETY: a live object; the check reads its type.
    if unsafe { ffi::PyIter_Check(value.as_ptr()) } != 0 {
        return Ok(Answer::Iterator(value));
    }
    out.emit(json_or_wrong(py, symbols, role, &value)?);
    Ok(Answer::Step(Step::Done))
}

/// A dict or a dataclass as JSON; the error about a wrong result for anything else.
#[cold]
pub fn json_or_wrong(
    py: Python<'_>,
    symbols: &Symbols,
    role: Role,
    value: &Bound<'_, PyAny>,
) -> Result<Emission, StageError> {
    json_emission(py, symbols, value)?.ok_or_else(|| wrong_result(role, value))
}

/// Emits one item of several; skips None.
pub fn emit_item(
    py: Python<'_>,
    symbols: &Symbols,
    role: Role,
    item: &Bound<'_, PyAny>,
    out: &mut Outbox,
) -> Result<(), StageError> {
    // SAFETY: a live object, and attached.
    if unsafe { emit_text(py, symbols, item.as_ptr(), out) } {
        return Ok(());
    }
    match emission(py, symbols, item)? {
        Some(made) => {
            out.emit(made);
            Ok(())
        }
        None if item.is_none() => Ok(()),
        None => {
            out.emit(json_or_wrong(py, symbols, role, item)?);
            Ok(())
        }
    }
}

#[inline]
pub fn sink_step(symbols: &Symbols, value: &Bound<'_, PyAny>) -> Result<Step, StageError> {
    if value.is_none() || value.as_ptr() == symbols.ready.as_ptr() {
        return Ok(Step::Done);
    }
    if value.as_ptr() == symbols.pause.as_ptr() {
        return Ok(Step::Pause);
    }
    Err(wrong_result(Role::Sink, value))
}

/// The ports that a router may return, in the order of the node's ports.
pub struct PortNames(pub Vec<Py<PyString>>);

impl PortNames {
    pub fn route(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        if value.is_none() {
            return Ok(Step::Route);
        }
        // A single name is a list of one.
        if value.is_instance_of::<PyString>() {
            out.ports.push(self.find(py, value)?);
            return Ok(Step::Route);
        }
        let names = value.try_iter().map_err(|_| wrong_result(Role::Router, value))?;
        for name in names {
            let port = self.find(py, &name.map_err(|error| component_error(py, error))?)?;
            if !out.ports.contains(&port) {
                out.ports.push(port);
            }
        }
        Ok(Step::Route)
    }

    fn find(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> Result<u16, StageError> {
        let same = |known: &Py<PyString>| known.is(name);
        if let Some(port) = self.0.iter().position(same) {
            return Ok(port as u16);
        }
        let equal = |known: &Py<PyString>| known.bind(py).as_any().eq(name).unwrap_or(false);
        self.0.iter().position(equal).map(|port| port as u16).ok_or_else(|| {
            let known: Vec<String> = self.0.iter().map(|name| format!("`{name}`")).collect();
            // A name that is not a str has the user's `__str__`, which may fail.
            let name = match name.cast::<PyString>() {
                Ok(text) => format!("`{text}`"),
                Err(_) => format!("an object of type {}", type_name(name)),
            };
            let message = format!("routed to {name}, but its ports are {}", known.join(", "));
            StageError::new(ErrorKind::Contract, message)
        })
    }
}

/// Turns an item of a source into a pull. Nearly all of them are texts, whose reference the element takes over.
#[inline(always)]
pub fn pull_item(
    py: Python<'_>,
    symbols: &Symbols,
    value: Bound<'_, PyAny>,
    now_ns: u64,
) -> Result<Pull, StageError> {
    // SAFETY: a live object, and attached.
    match unsafe { text_len(symbols, value.as_ptr()) } {
        Some(len) => Ok(Pull::Ready(text_of_len(value, len))),
        None => pull_step(py, symbols, &value, now_ns),
    }
}

/// Turns the result of a source into a pull.
#[inline]
pub fn pull_step(
    py: Python<'_>,
    symbols: &Symbols,
    value: &Bound<'_, PyAny>,
    now_ns: u64,
) -> Result<Pull, StageError> {
    if let Some(made) = emission(py, symbols, value)? {
        return Ok(Pull::Ready(made));
    }
    if value.is_none() {
        return Ok(Pull::End(torvyn_stream::End::because("stop")));
    }
    if value.as_ptr() == symbols.pending.as_ptr() {
        return Ok(Pull::Pending(None));
    }
    if let Some(end) = end_of(symbols, value) {
        return Ok(Pull::End(end));
    }
    if value.is_instance(symbols.pending_type.bind(py)).unwrap_or(false) {
        let after: Option<f64> = value
            .getattr("after_s")
            .and_then(|after| after.extract())
            .map_err(|error| component_error(py, error))?;
        return Ok(Pull::Pending(after.map(|after| now_ns.saturating_add((after.max(0.0) * 1e9) as u64))));
    }
    json_or_wrong(py, symbols, Role::Source, value).map(Pull::Ready)
}
