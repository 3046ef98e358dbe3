//! Values across the border: Python objects to emissions and steps, native elements to `Element` objects.
//!
//! This code runs per element, so it calls the C API directly: it compares identity first, then type pointers, and
//! extracts nothing.

use std::sync::Arc;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use torvyn_reactor::{Role, SharedState};
use torvyn_stream::{
    ContentType, Delivery, Element, Emission, End, ErrorKind, Foreign, Outbox, Payload, StageError,
};

use crate::element::foreign::{foreign, object};
use crate::element::port_ids::port_id;
use crate::element::{Data, NativeData, PyElement, TextElement, content_name};
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
    let made = make_element(py, symbols, element, node_context);
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
    node_context: &NodeContext,
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
            let reader = Some((node_context.shared.clone(), node_context.node));
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
        context: Some(node_context.context.clone_ref(py)),
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

pub fn wrong_result(role: Role, got: &Bound<'_, PyAny>) -> StageError {
    let kind = type_name(got);
    let expected = match role {
        Role::Source => "str, bytes, Output, None, PENDING or End",
        Role::Processor => "None, str, bytes, Output, a list or a generator of them",
        Role::Filter => "bool or Verdict",
        Role::Router => "names of its declared ports",
        Role::Aggregator => "None, str, bytes, Output, a list or a generator of them",
        Role::Sink => "None or Signal",
    };
    StageError::new(ErrorKind::Contract, format!("returned {kind}, expected {expected}"))
}

/// A str, bytes, Output or Element as an emission. `None` for any other type.
#[inline]
pub fn emission(
    py: Python<'_>,
    symbols: &Symbols,
    value: &Bound<'_, PyAny>,
) -> Result<Option<Emission>, StageError> {
    // SAFETY: only the type pointer is read.
    let kind = unsafe { ffi::Py_TYPE(value.as_ptr()) };
    if kind == symbols.str_type {
        return plain(value, ContentType::TEXT).map(Some);
    }
    if kind == symbols.bytes_type {
        return plain(value, ContentType::BINARY).map(Some);
    }
    if kind == symbols.output_type.as_ptr().cast() {
        return output(symbols, value).map(Some).map_err(|error| component_error(py, error));
    }
    if let Ok(element) = value.cast::<PyElement>() {
        return from_element(py, element.get()).map(Some);
    }
    if value.is_instance_of::<PyString>() {
        return plain(value, ContentType::TEXT).map(Some);
    }
    if value.is_instance_of::<PyBytes>() {
        return plain(value, ContentType::BINARY).map(Some);
    }
    if value.is_instance(symbols.output_type.bind(py)).unwrap_or(false) {
        return output(symbols, value).map(Some).map_err(|error| component_error(py, error));
    }
    Ok(None)
}

/// Emits an exact str, with a new reference to it. False for anything else, and for a str that is special in any way.
///
/// # Safety
/// `pointer` is null or a live object, and the thread is attached.
#[inline(always)]
pub unsafe fn emit_text(
    py: Python<'_>,
    symbols: &Symbols,
    pointer: *mut ffi::PyObject,
    out: &mut Outbox,
) -> bool {
    let mut len = 0;
    // SAFETY: the caller's promise; the str is read after its type was checked.
    let value = unsafe {
        if pointer.is_null() || ffi::Py_TYPE(pointer) != symbols.str_type {
            return false;
        }
        if ffi::PyUnicode_AsUTF8AndSize(pointer, &mut len).is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        Bound::from_borrowed_ptr(py, pointer)
    };
    let Ok(len) = u32::try_from(len) else { return false };
    let payload = Payload::Foreign(foreign(value));
    let (content_type, delivery) = (ContentType::TEXT, Delivery::default());
    out.emit(Emission { len, payload, content_type, companion: None, delivery });
    true
}

#[inline]
fn plain(value: &Bound<'_, PyAny>, content_type: ContentType) -> Result<Emission, StageError> {
    let Some(len) = encoded_len(value, content_type) else {
        return Err(StageError::new(
            ErrorKind::InvalidInput,
            "the text contains half of a surrogate pair and cannot be encoded",
        ));
    };
    let payload = Payload::Foreign(foreign(value.clone()));
    let Ok(len) = u32::try_from(len) else {
        return Err(StageError::new(ErrorKind::InvalidInput, "an element may have at most 4 GiB"));
    };
    Ok(Emission { payload, len, content_type, companion: None, delivery: Delivery::default() })
}

/// The length of a str or bytes object in bytes; None for a str that cannot be encoded.
#[inline]
fn encoded_len(value: &Bound<'_, PyAny>, content_type: ContentType) -> Option<usize> {
    // SAFETY: attached; the callers have checked the type.
    unsafe {
        if content_type == ContentType::BINARY {
            return Some(ffi::PyBytes_Size(value.as_ptr()) as usize);
        }
        let mut len = 0;
        if ffi::PyUnicode_AsUTF8AndSize(value.as_ptr(), &mut len).is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(len as usize)
    }
}

fn output(symbols: &Symbols, value: &Bound<'_, PyAny>) -> PyResult<Emission> {
    let py = value.py();
    let data = value.getattr("data")?;
    let text = data.is_instance_of::<PyString>();
    if !text && !data.is_instance_of::<PyBytes>() {
        let kind = data.get_type().name()?;
        let message = format!("an Output's data is str or bytes, not {kind}");
        return Err(PyErr::from_value(
            symbols.contract_error.bind(py).call1(("contract.wrong-result", message))?,
        ));
    }
    let mut made = plain(&data, if text { ContentType::TEXT } else { ContentType::BINARY })
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.message))?;
    let content_type = value.getattr("content_type")?;
    // An empty name means none, as in the contract of guests.
    if content_type.is_truthy()? {
        let name: String = content_type.extract()?;
        (made.payload, made.content_type) = made.payload.named(content_name(&name)?);
    }
    let attributes = value.getattr("attributes")?;
    if !attributes.is_none() {
        let dict = PyDict::new(py);
        dict.update(attributes.cast::<pyo3::types::PyMapping>()?)?;
        made.companion = Some(foreign(dict.into_any()));
    }
    made.delivery = Delivery::kept_if(value.getattr("keep")?.is_truthy()?);
    let port = value.getattr(intern!(py, "port"))?;
    if !port.is_none() {
        made.delivery = made.delivery.through(port_id(&port.extract::<String>()?)?);
    }
    Ok(made)
}

/// An element that a component emits again.
fn from_element(py: Python<'_>, element: &PyElement) -> Result<Emission, StageError> {
    let (payload, len) = match &element.data {
        Data::Text(text) => {
            let made = plain(text.bind(py).as_any(), ContentType::TEXT)?;
            (made.payload, made.len)
        }
        Data::Bytes(bytes) => {
            let made = plain(bytes.bind(py).as_any(), ContentType::BINARY)?;
            (made.payload, made.len)
        }
        Data::Native(native) => (native.payload.clone(), native.len),
    };
    let companion = element.attributes.as_ref().map(|dict| foreign(dict.bind(py).clone().into_any()));
    let (payload, content_type) = payload.named(element.content_type.clone());
    Ok(Emission { payload, len, content_type, companion, delivery: Delivery::default() })
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
