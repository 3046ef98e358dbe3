//! Values across the border: native elements to `Element` objects, ends and errors both ways.
//!
//! This code runs per element, so it calls the C API directly: it compares identity first, then type pointers, and
//! extracts nothing.

use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};
use torvyn_reactor::{Role, SharedState};
use torvyn_stream::{Element, End, ErrorKind, Foreign, StageError};

use crate::element::foreign::{foreign, object};
use crate::element::{Data, NativeData, PyElement, TextElement};
use crate::symbols::Symbols;

/// What all `Element` objects of a node share.
pub struct NodeContext {
    pub context: Py<PyAny>,
    pub shared: Arc<SharedState>,
    pub node: u16,
}

/// The `Element` object of a native element: created once and kept as its companion.
#[inline]
pub fn companion(
    py: Python<'_>,
    symbols: &Symbols,
    element: &mut Element,
    node_context: &NodeContext,
) -> PyResult<*mut ffi::PyObject> {
    if let Some(companion) = &element.companion {
        let pointer: *mut ffi::PyObject = companion.as_ptr().as_ptr().cast();
        // SAFETY: a live object; only its type is read.
        let kind = unsafe { ffi::Py_TYPE(pointer) };
        if kind == symbols.text_element_type || kind == symbols.element_type {
            return Ok(pointer);
        }
    }
    let made = element_object(py, symbols, element, node_context)?;
    let pointer = made.as_ptr();
    element.companion = Some(foreign(made));
    Ok(pointer)
}

/// A new `Element` object for a native element.
#[inline]
pub fn element_object<'py>(
    py: Python<'py>,
    symbols: &Symbols,
    element: &Element,
    node_context: &NodeContext,
) -> PyResult<Bound<'py, PyAny>> {
    finish(py, make_element(py, symbols, element, Some(node_context)))
}

/// Like `element_object`, for code that belongs to no node.
pub fn bare_element<'py>(
    py: Python<'py>,
    symbols: &Symbols,
    element: &Element,
) -> PyResult<Bound<'py, PyAny>> {
    finish(py, make_element(py, symbols, element, None))
}

#[inline]
fn finish(py: Python<'_>, made: PyElement) -> PyResult<Bound<'_, PyAny>> {
    if let Data::Text(text) = &made.data {
        let text = text.clone_ref(py);
        let whole = PyClassInitializer::from(made).add_subclass(TextElement { text });
        return Ok(Bound::new(py, whole)?.into_any());
    }
    Ok(Bound::new(py, made)?.into_any())
}

fn make_element(
    py: Python<'_>,
    symbols: &Symbols,
    element: &Element,
    node_context: Option<&NodeContext>,
) -> PyElement {
    let data = match element.payload.foreign() {
        // SAFETY: payloads are exact or derived str and bytes objects.
        Some(payload) => unsafe {
            let payload = object(py, payload);
            if ffi::PyUnicode_Check(payload.as_ptr()) != 0 {
                Data::Text(payload.cast_into_unchecked::<PyString>().unbind())
            } else {
                Data::Bytes(payload.cast_into_unchecked::<PyBytes>().unbind())
            }
        },
        None => {
            let payload = element.payload.bare();
            let reader = node_context.map(|context| (context.shared.clone(), context.node));
            Data::Native(Box::new(NativeData::new(payload, element.len, reader)))
        }
    };
    let attributes = element.companion.as_ref().and_then(|companion| attributes_of(py, symbols, companion));
    PyElement {
        data,
        sequence: element.sequence,
        timestamp_ns: element.timestamp_ns,
        content_type: element.content_name(),
        attributes,
        context: node_context.map(|context| context.context.clone_ref(py)),
    }
}

pub fn attributes_of(py: Python<'_>, symbols: &Symbols, companion: &Foreign) -> Option<Py<PyDict>> {
    let companion = object(py, companion);
    // SAFETY: only the type pointer is read.
    if unsafe { ffi::Py_TYPE(companion.as_ptr()) } == symbols.dict_type {
        return companion.cast_into::<PyDict>().ok().map(Bound::unbind);
    }
    companion.cast::<PyElement>().ok()?.get().attributes.as_ref().map(|dict| dict.clone_ref(py))
}

pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

const EMISSIONS: &str = "None, str, bytes, a dict, a dataclass, Output, a list or a generator of them";

pub fn wrong_result(role: Role, got: &Bound<'_, PyAny>) -> StageError {
    let kind = type_name(got);
    let expected = match role {
        Role::Source => "str, bytes, a dict, a dataclass, Output, None, PENDING or End",
        Role::Processor if got.is_instance_of::<PyBool>() => {
            "an element; a function that tells which elements to keep is a filter: wrap it in `torvyn.filter(...)`"
        }
        Role::Processor => EMISSIONS,
        Role::Filter => "bool or Verdict",
        Role::Router => "names of its declared ports",
        Role::Aggregator => EMISSIONS,
        Role::Sink => "None or Signal",
    };
    StageError::new(ErrorKind::Contract, format!("returned {kind}, expected {expected}"))
}

pub fn end_of(symbols: &Symbols, value: &Bound<'_, PyAny>) -> Option<End> {
    let py = value.py();
    if !value.is_instance(symbols.end_type.bind(py)).unwrap_or(false) {
        return None;
    }
    let reason = value.getattr("finish_reason").and_then(|reason| reason.extract::<String>());
    Some(End {
        finish_reason: reason.unwrap_or_else(|_| "stop".to_owned()),
        detail: None,
        object: Some(foreign(value.clone())),
    })
}

/// The `End` object for Python.
pub fn end_object<'py>(py: Python<'py>, symbols: &Symbols, end: &End) -> PyResult<Bound<'py, PyAny>> {
    if let Some(end) = &end.object {
        return Ok(object(py, end));
    }
    let arguments = PyDict::new(py);
    arguments.set_item("finish_reason", &end.finish_reason)?;
    arguments.set_item("reason", end.detail.as_deref())?;
    symbols.end_type.bind(py).call((), Some(&arguments))
}

/// An exception as a stage error.
pub fn component_error(py: Python<'_>, error: PyErr) -> StageError {
    let kind = Symbols::get(py).map_or(ErrorKind::Internal, |symbols| {
        let is = |class: &Py<pyo3::types::PyType>| error.is_instance(py, class.bind(py));
        if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
            beyond_exception(py, &error)
        } else if is(&symbols.fatal) {
            ErrorKind::Fatal
        } else if is(&symbols.invalid_input) {
            ErrorKind::InvalidInput
        } else if is(&symbols.unavailable) {
            ErrorKind::Unavailable
        } else if is(&symbols.deadline_exceeded) {
            ErrorKind::DeadlineExceeded
        } else if is(&symbols.contract_error) {
            ErrorKind::Contract
        } else {
            ErrorKind::Internal
        }
    });
    let message = error.to_string();
    StageError { kind, message, object: Some(foreign(error.into_value(py).into_bound(py).into_any())) }
}

/// A component that raises `SystemExit`, `GeneratorExit` and the like cannot continue. Only a `KeyboardInterrupt` on
/// the main thread may come from a person, because Python runs signal handlers nowhere else.
#[cold]
fn beyond_exception(py: Python<'_>, error: &PyErr) -> ErrorKind {
    if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) && is_main_thread(py).unwrap_or(true)
    {
        ErrorKind::Interrupted
    } else {
        ErrorKind::Fatal
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    threading.call_method0("get_ident")?.eq(main)
}
