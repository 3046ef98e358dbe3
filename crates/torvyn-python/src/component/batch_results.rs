//! Turns what a batch method returned into one result per element; for inline calls and for offloaded stages.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use torvyn_reactor::{Role, method_name};
use torvyn_stream::{Answers, Batch, ErrorKind, Outbox, Pull, Settled, StageError, Step};

use crate::component::interpret::{Answer, filter_step, made_step, pull_step, sink_step};
use crate::element::convert::{component_error, type_name};
use crate::element::emission::{emission, emit_text, json_emission};
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
            // SAFETY: the singletons are compared, not used.
            let (yes, no) = unsafe { (ffi::Py_True(), ffi::Py_False()) };
            answers.settled.reserve(count);
            for at in 0..count {
                if role == Role::Filter {
                    // Nearly all results are one of these two.
                    let item = items.borrowed(at);
                    if item == yes || item == no {
                        answers.settled.push(if item == yes { Settled::Forward } else { Settled::Drop });
                        continue;
                    }
                }
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

/// What `pull_batch` returned: elements, into the outbox, or a reason why there are none.
pub fn pull_batch_step(
    symbols: &Symbols,
    value: &Bound<'_, PyAny>,
    most: usize,
    now_ns: u64,
    out: &mut Outbox,
) -> Result<Option<Pull>, StageError> {
    let py = value.py();
    let Some(items) = Items::of(value) else {
        return match pull_step(py, symbols, value, now_ns) {
            Ok(Pull::Ready(_)) => Err(wrong(Role::Source, value, PULLED)),
            Err(error) if error.object.is_none() => Err(wrong(Role::Source, value, PULLED)),
            pull => pull.map(Some),
        };
    };
    let count = items.len();
    if count == 0 || count > most {
        return Err(wrong_count(count, most));
    }
    out.made.reserve(count);
    for at in 0..count {
        let pointer = items.borrowed(at);
        // SAFETY: a borrowed reference or null, and attached.
        if unsafe { emit_text(py, symbols, pointer, out) } {
            continue;
        }
        let item = items.get(at)?;
        match emission(py, symbols, &item)? {
            Some(made) => out.emit(made),
            None => match json_emission(py, symbols, &item)? {
                Some(made) => out.emit(made),
                None => return Err(wrong(Role::Source, &item, PULLED_ITEM)),
            },
        }
    }
    Ok(None)
}

const PULLED: &str = "a list of str, bytes, dicts, dataclasses or Output, or None, PENDING or End";
const PULLED_ITEM: &str = "str, bytes, a dict, a dataclass or Output as each item";

fn wrong_count(count: usize, most: usize) -> StageError {
    let message = if count == 0 {
        "`pull_batch` returned an empty list; return PENDING if nothing is ready, None at the end".to_owned()
    } else {
        format!("`pull_batch` returned {count} elements, but it may return at most {most}")
    };
    StageError::new(ErrorKind::Contract, message)
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

impl<'a, 'py> Items<'a, 'py> {
    /// None: the value is neither.
    fn of(value: &'a Bound<'py, PyAny>) -> Option<Self> {
        match value.is_instance_of::<PyList>() {
            true => Some(Self(value, true)),
            false => value.is_instance_of::<PyTuple>().then_some(Self(value, false)),
        }
    }

    fn len(&self) -> usize {
        self.0.len().unwrap_or(0)
    }

    #[inline]
    fn get(&self, at: usize) -> Result<Bound<'py, PyAny>, StageError> {
        let py = self.0.py();
        // SAFETY: a borrowed reference, or null with an exception set.
        unsafe { Bound::from_borrowed_ptr_or_err(py, self.borrowed(at)) }
            .map_err(|error| component_error(py, error))
    }

    /// A borrowed reference; null with an exception set if the list has changed and has no such item.
    #[inline]
    fn borrowed(&self, at: usize) -> *mut ffi::PyObject {
        let Items(value, is_list) = self;
        // SAFETY: the type was checked, and the call checks the bounds.
        unsafe {
            match is_list {
                true => ffi::PyList_GetItem(value.as_ptr(), at as isize),
                false => ffi::PyTuple_GetItem(value.as_ptr(), at as isize),
            }
        }
    }
}

fn items_of<'a, 'py>(
    role: Role,
    value: &'a Bound<'py, PyAny>,
    count: usize,
) -> Result<Items<'a, 'py>, StageError> {
    let items = Items::of(value).ok_or_else(|| wrong_batch(role, value))?;
    let len = items.len();
    if len != count {
        let method = method_name(role);
        let message = format!(
            "`{method}_batch` returned a list of {len} for {count} elements; it must have one entry for each"
        );
        return Err(StageError::new(ErrorKind::Contract, message));
    }
    Ok(items)
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
        Role::Aggregator => "None, str, bytes, a dict, a dataclass, Output or a list of them",
        _ => "None, str, bytes, a dict, a dataclass, Output, a list of them or an exception for each element",
    };
    wrong(role, got, expected)
}

fn wrong(role: Role, got: &Bound<'_, PyAny>, expected: &str) -> StageError {
    let (method, kind) = (method_name(role), type_name(got));
    StageError::new(ErrorKind::Contract, format!("`{method}_batch` returned {kind}, expected {expected}"))
}
