//! Values across the border: Python objects into emissions and steps, native elements into `Element` objects.
//!
//! The raw calls of the hot path live here with their unsafe: identity first, types by pointer, no extraction.

use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use torvyn_reactor::{Role, SharedState};
use torvyn_stream::{
    ContentType, Element, Emission, End, ErrorKind, Foreign, ForeignTable, Payload, StageError,
};

use crate::element::{Data, NativeData, PyElement, TextElement, content_name};
use crate::symbols::Symbols;

static TABLE: ForeignTable = ForeignTable { retain, release, view, inherit, bare, stream };

unsafe fn retain(pointer: NonNull<()>) {
    // Guests give attributes to elements of flows that run detached; within an attached turn this only looks.
    // SAFETY: attached, on a live object.
    Python::attach(|_| unsafe { ffi::Py_INCREF(pointer.as_ptr().cast()) });
}

unsafe fn release(pointer: NonNull<()>) {
    // SAFETY: an owned reference; `Py` defers the release when this thread is not attached.
    let object = unsafe { Bound::from_owned_ptr(Python::assume_attached(), pointer.as_ptr().cast()) };
    drop(object.unbind());
}

unsafe fn view(pointer: NonNull<()>) -> (*const u8, usize, bool) {
    let object: *mut ffi::PyObject = pointer.as_ptr().cast();
    // SAFETY: called inside an attached turn on a str or bytes object, as `Payload::Foreign` promises.
    unsafe {
        let mut len = 0;
        if ffi::PyUnicode_Check(object) != 0 {
            let data = ffi::PyUnicode_AsUTF8AndSize(object, &mut len);
            if data.is_null() {
                ffi::PyErr_Clear();
            }
            // An ASCII str is its own UTF-8; any other is encoded once and the copy kept in the str.
            return (data.cast(), len as usize, ffi::PyUnicode_GetLength(object) != len);
        }
        let mut data = std::ptr::null_mut();
        if ffi::PyBytes_AsStringAndSize(object, &mut data, &mut len) != 0 {
            ffi::PyErr_Clear();
            return (std::ptr::null(), 0, false);
        }
        (data.cast_const().cast(), len as usize, false)
    }
}

unsafe fn inherit(pointer: NonNull<()>) -> Option<NonNull<()>> {
    Python::attach(|py| {
        // SAFETY: a live object: a companion, which is an Element or a dict of attributes.
        let object = unsafe { Bound::from_borrowed_ptr(py, pointer.as_ptr().cast()) };
        let dict = match object.cast::<PyElement>() {
            Ok(element) => element.get().attributes.as_ref()?.bind(py).clone().into_any(),
            Err(_) => object,
        };
        NonNull::new(dict.into_ptr().cast())
    })
}

/// The attributes of a companion, which is an Element or a dict of them.
unsafe fn attributes<'py>(py: Python<'py>, pointer: NonNull<()>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: called inside an attached turn on a live companion.
    let object = unsafe { Bound::from_borrowed_ptr(py, pointer.as_ptr().cast()) };
    match object.cast::<PyElement>() {
        Ok(element) => Some(element.get().attributes.as_ref()?.bind(py).clone()),
        Err(_) => object.cast_into::<PyDict>().ok(),
    }
}

/// What an engine says of single tokens. It tells their text.
const OF_TOKENS: [&str; 4] = ["token_ids", "token_id", "logprobs", "top_logprobs"];

unsafe fn bare(pointer: NonNull<()>) -> Option<NonNull<()>> {
    // SAFETY: called inside an attached turn on a companion.
    let known = unsafe { attributes(Python::assume_attached(), pointer) }?;
    let mut dict = known.clone();
    for name in OF_TOKENS {
        if dict.contains(name).unwrap_or(false) {
            if dict.is(&known) {
                dict = known.copy().ok()?;
            }
            dict.del_item(name).ok()?;
        }
    }
    NonNull::new(dict.into_ptr().cast())
}

unsafe fn stream(pointer: NonNull<()>) -> (*const u8, usize, i64) {
    // SAFETY: called inside an attached turn on a companion.
    let known = unsafe { attributes(Python::assume_attached(), pointer) };
    let Some(known) = known else { return (std::ptr::null(), 0, 0) };
    let item = |name: &str| known.get_item(name).ok().flatten();
    let choice = item("choice").and_then(|choice| choice.extract().ok()).unwrap_or(0);
    let Some(kind) = item("kind") else { return (std::ptr::null(), 0, choice) };
    let Ok(kind) = kind.cast::<PyString>() else { return (std::ptr::null(), 0, choice) };
    // The dict keeps the str, and the str its UTF-8.
    kind.to_str().map_or((std::ptr::null(), 0, choice), |kind| (kind.as_ptr(), kind.len(), choice))
}

pub fn foreign(object: Bound<'_, PyAny>) -> Foreign {
    // SAFETY: an owned, non-null reference that TABLE handles.
    unsafe { Foreign::from_owned(NonNull::new_unchecked(object.into_ptr().cast()), &TABLE) }
}

pub fn object<'py>(py: Python<'py>, foreign: &Foreign) -> Bound<'py, PyAny> {
    // SAFETY: every `Foreign` of this process was made by `foreign` above.
    unsafe { Bound::from_borrowed_ptr(py, foreign.as_ptr().as_ptr().cast()) }
}

/// What turns native elements into Python ones: what they all share.
pub struct Surroundings {
    pub context: Py<PyAny>,
    pub shared: Arc<SharedState>,
    pub node: u16,
}

/// The `Element` object of a native element: made once and kept beside it.
#[inline]
pub fn companion(
    py: Python<'_>,
    symbols: &Symbols,
    element: &mut Element,
    around: &Surroundings,
) -> PyResult<*mut ffi::PyObject> {
    if let Some(companion) = &element.companion {
        let pointer: *mut ffi::PyObject = companion.as_ptr().as_ptr().cast();
        // SAFETY: a live object; only its type is looked at.
        let kind = unsafe { ffi::Py_TYPE(pointer) };
        if kind == symbols.text_element_type || kind == symbols.element_type {
            return Ok(pointer);
        }
    }
    let made = element_object(py, symbols, element, around)?;
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
    around: &Surroundings,
) -> PyResult<Bound<'py, PyAny>> {
    let made = make_element(py, symbols, element, around);
    if let Data::Text(text) = &made.data {
        let text = text.clone_ref(py);
        let whole = PyClassInitializer::from(made).add_subclass(TextElement { text });
        return Ok(Bound::new(py, whole)?.into_any());
    }
    Ok(Bound::new(py, made)?.into_any())
}

fn make_element(py: Python<'_>, symbols: &Symbols, element: &Element, around: &Surroundings) -> PyElement {
    let data = match element.payload.foreign() {
        // SAFETY: payloads are exact or derived str and bytes objects.
        Some(held) => unsafe {
            let held = object(py, held);
            if ffi::PyUnicode_Check(held.as_ptr()) != 0 {
                Data::Text(held.cast_into_unchecked::<PyString>().unbind())
            } else {
                Data::Bytes(held.cast_into_unchecked::<PyBytes>().unbind())
            }
        },
        None => {
            let payload = element.payload.bare();
            let reader = Some((around.shared.clone(), around.node));
            Data::Native(Box::new(NativeData::new(payload, element.len, reader)))
        }
    };
    let attributes = element.companion.as_ref().and_then(|held| attributes_of(py, symbols, held));
    PyElement {
        data,
        sequence: element.sequence,
        timestamp_ns: element.timestamp_ns,
        content_type: element.content_name(),
        attributes,
        context: Some(around.context.clone_ref(py)),
    }
}

pub fn attributes_of(py: Python<'_>, symbols: &Symbols, held: &Foreign) -> Option<Py<PyDict>> {
    let held = object(py, held);
    // SAFETY: only the type pointer is read.
    if unsafe { ffi::Py_TYPE(held.as_ptr()) } == symbols.dict_type {
        return held.cast_into::<PyDict>().ok().map(Bound::unbind);
    }
    held.cast::<PyElement>().ok()?.get().attributes.as_ref().map(|dict| dict.clone_ref(py))
}

pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

pub fn wrong(role: Role, got: &Bound<'_, PyAny>) -> StageError {
    let kind = type_name(got);
    let expected = match role {
        Role::Source => "str, bytes, Output, None, PENDING or End",
        Role::Processor => "None, str, bytes, Output, a list or a generator of them",
        Role::Filter => "bool or Verdict",
        Role::Router => "port names that it declares",
        Role::Aggregator => "None, str, bytes, Output, a list or a generator of them",
        Role::Sink => "None or Signal",
    };
    StageError::new(ErrorKind::Contract, format!("answered {kind}, expected {expected}"))
}

/// A str, bytes, Output or Element as something a component made. `None`: it is none of these.
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
        return output(symbols, value).map(Some).map_err(|error| raised(py, error));
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
        return output(symbols, value).map(Some).map_err(|error| raised(py, error));
    }
    Ok(None)
}

#[inline]
fn plain(value: &Bound<'_, PyAny>, content_type: ContentType) -> Result<Emission, StageError> {
    let Some(len) = encoded_len(value, content_type) else {
        return Err(StageError::new(
            ErrorKind::InvalidInput,
            "the text has half of a surrogate pair and cannot be encoded",
        ));
    };
    let held = foreign(value.clone());
    let Ok(len) = u32::try_from(len) else {
        return Err(StageError::new(ErrorKind::InvalidInput, "an element is at most 4 GiB"));
    };
    Ok(Emission { payload: Payload::Foreign(held), len, content_type, companion: None, keep: false })
}

/// The bytes a str or bytes object has or would have; None for a str that cannot be encoded.
#[inline]
fn encoded_len(value: &Bound<'_, PyAny>, content_type: ContentType) -> Option<usize> {
    // SAFETY: attached; the callers have looked at the type.
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
    // An empty name says nothing, as in the contract of guests.
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
    made.keep = value.getattr("keep")?.is_truthy()?;
    Ok(made)
}

/// An element that a component sends on under its own name.
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
    Ok(Emission { payload, len, content_type, companion, keep: false })
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
    if let Some(held) = &end.object {
        return Ok(object(py, held));
    }
    let arguments = PyDict::new(py);
    arguments.set_item("finish_reason", &end.finish_reason)?;
    arguments.set_item("reason", end.detail.as_deref())?;
    symbols.end_type.bind(py).call((), Some(&arguments))
}

/// An exception as the reactor knows it.
pub fn raised(py: Python<'_>, error: PyErr) -> StageError {
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

/// `SystemExit`, `GeneratorExit` and the like are a component's own doing: it cannot go on. Only a `KeyboardInterrupt` on
/// the main thread may be a person's, because Python runs signal handlers there and nowhere else.
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
