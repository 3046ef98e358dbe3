//! Turns what a batch method returned into one result per element; for inline calls and for offloaded stages.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use torvyn_reactor::{Role, method_name};
use torvyn_stream::{Answers, Batch, ErrorKind, Outbox, Settled, StageError, Step};

use crate::component::interpret::{Answer, filter_step, made_step, sink_step};
use crate::element::convert::{component_error, type_name};
use crate::symbols::Symbols;

/// The results of a batch. An error is about the call as a whole.
pub fn interpret_batch(
    symbols: &Symbols,
    role: Role,
    value: &Bound<'_, PyAny>,
    batch: &Batch<'_>,
    answers: &mut Answers,
) -> Result<(), StageError> {
    let given = |at: usize| {
        let element = batch.first.get(at).or_else(|| batch.second.get(at - batch.first.len()))?;
        Some(element.companion.as_ref()?.as_ptr().as_ptr().cast::<ffi::PyObject>())
    };
    interpret(symbols, role, value, batch.len(), given, answers)
}

/// The same with the object that stands for each element, so that a processor may return it to pass it on.
pub fn interpret(
    symbols: &Symbols,
    role: Role,
    value: &Bound<'_, PyAny>,
    count: usize,
    given: impl Fn(usize) -> Option<*mut ffi::PyObject>,
    answers: &mut Answers,
) -> Result<(), StageError> {
    let py = value.py();
    let mut out = Outbox { made: std::mem::take(&mut answers.made), ..Outbox::default() };
    let step = match role {
        Role::Aggregator => whole(made_step(py, symbols, role, value.clone(), &mut out), role, value),
        Role::Sink if !is_list(value) => sink_step(symbols, value).map_err(|_| wrong_batch(role, value)),
        Role::Processor if value.is_none() => Ok(Step::Done),
        _ => {
            let items = items_of(role, value, count)?;
            for at in 0..count {
                let before = out.made.len();
                let item = items.get(at)?;
                let step = item_step(symbols, role, &item, given(at), &mut out);
                if step.is_err() {
                    out.made.truncate(before);
                }
                answers.settled.push(Settled::new(step, out.made.len() - before));
            }
            answers.made = out.made;
            return Ok(());
        }
    };
    answers.made = out.made;
    answers.settle_all(count, step?);
    Ok(())
}

/// What is returned for one element: an exception is that element's error.
#[inline]
fn item_step(
    symbols: &Symbols,
    role: Role,
    item: &Bound<'_, PyAny>,
    given: Option<*mut ffi::PyObject>,
    out: &mut Outbox,
) -> Result<Step, StageError> {
    let py = item.py();
    // SAFETY: a live object; the check reads its type.
    let fails = || unsafe { ffi::PyExceptionInstance_Check(item.as_ptr()) != 0 };
    match role {
        // SAFETY: the singletons are compared, not used.
        Role::Filter if item.as_ptr() == unsafe { ffi::Py_True() } => Ok(Step::Forward),
        _ if fails() => Err(component_error(py, PyErr::from_value(item.clone()))),
        Role::Filter => filter_step(py, symbols, item, out),
        Role::Sink if item.is_none() => Ok(Step::Done),
        Role::Processor if given == Some(item.as_ptr()) => Ok(Step::Forward),
        Role::Processor => whole(made_step(py, symbols, role, item.clone(), out), role, item),
        role => Err(wrong_item(role, item)),
    }
}

/// A generator would have to be read after the call, for one element at a time.
fn whole(
    answer: Result<Answer<'_>, StageError>,
    role: Role,
    value: &Bound<'_, PyAny>,
) -> Result<Step, StageError> {
    match answer? {
        Answer::Step(step) => Ok(step),
        Answer::Iterator(_) => Err(wrong_item(role, value)),
    }
}

/// The items of a list or tuple.
struct Items<'a, 'py>(&'a Bound<'py, PyAny>, bool);

impl<'py> Items<'_, 'py> {
    #[inline]
    fn get(&self, at: usize) -> Result<Bound<'py, PyAny>, StageError> {
        let Items(value, is_list) = self;
        // SAFETY: the type was checked; the call checks the bounds, because the list may have changed since.
        unsafe {
            let item = match is_list {
                true => ffi::PyList_GetItem(value.as_ptr(), at as isize),
                false => ffi::PyTuple_GetItem(value.as_ptr(), at as isize),
            };
            Bound::from_borrowed_ptr_or_err(value.py(), item)
                .map_err(|error| component_error(value.py(), error))
        }
    }
}

fn items_of<'a, 'py>(
    role: Role,
    value: &'a Bound<'py, PyAny>,
    count: usize,
) -> Result<Items<'a, 'py>, StageError> {
    let len = match (value.cast::<PyList>(), value.cast::<PyTuple>()) {
        (Ok(list), _) => list.len(),
        (_, Ok(tuple)) => tuple.len(),
        _ => return Err(wrong_batch(role, value)),
    };
    if len != count {
        let method = method_name(role);
        let message = format!(
            "`{method}_batch` returned a list of {len} for {count} elements; it must have one entry for each"
        );
        return Err(StageError::new(ErrorKind::Contract, message));
    }
    Ok(Items(value, value.is_instance_of::<PyList>()))
}

fn is_list(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}

fn wrong_batch(role: Role, got: &Bound<'_, PyAny>) -> StageError {
    let expected = match role {
        Role::Filter => "a list with a bool, Verdict or exception for each element",
        Role::Sink => "None, Signal, or a list with None or an exception for each element",
        _ => "a list with an entry for each element",
    };
    wrong(role, got, expected)
}

fn wrong_item(role: Role, got: &Bound<'_, PyAny>) -> StageError {
    let expected = match role {
        Role::Sink => "None or an exception for each element",
        Role::Aggregator => "None, str, bytes, Output or a list of them",
        _ => "None, str, bytes, Output, a list of them or an exception for each element",
    };
    wrong(role, got, expected)
}

fn wrong(role: Role, got: &Bound<'_, PyAny>, expected: &str) -> StageError {
    let (method, kind) = (method_name(role), type_name(got));
    StageError::new(ErrorKind::Contract, format!("`{method}_batch` returned {kind}, expected {expected}"))
}
