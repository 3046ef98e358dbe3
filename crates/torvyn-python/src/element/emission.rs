//! Values that a component returns: str, bytes, Output and Element objects to emissions.
//!
//! Like all code that runs per element it calls the C API directly: it compares type pointers and extracts nothing.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use torvyn_stream::{ContentType, Delivery, Emission, ErrorKind, Outbox, Payload, StageError};

use crate::element::convert::component_error;
use crate::element::foreign::foreign;
use crate::element::port_ids::port_id;
use crate::element::{Data, PyElement, content_name};
use crate::symbols::Symbols;

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

/// A dict or a dataclass as an emission of JSON. `None` for any other type. It is asked last, before the error about a
/// result, so that nothing else waits for it.
#[cold]
pub fn json_emission(
    py: Python<'_>,
    symbols: &Symbols,
    value: &Bound<'_, PyAny>,
) -> Result<Option<Emission>, StageError> {
    let Some(text) = json_text(symbols, value).map_err(|error| component_error(py, error))? else {
        return Ok(None);
    };
    plain(text.as_any(), ContentType::JSON).map(Some)
}

/// A dict or a dataclass as JSON. `None` for any other type.
pub fn json_text<'py>(
    symbols: &Symbols,
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let text = symbols.json_text.bind(value.py()).call1((value,))?;
    if text.is_none() { Ok(None) } else { Ok(Some(text.cast_into::<PyString>()?)) }
}

/// The length of an exact str in bytes. None for anything else, and for a str that is special in any way.
///
/// # Safety
/// `pointer` is null or a live object, and the thread is attached.
#[inline(always)]
pub unsafe fn text_len(symbols: &Symbols, pointer: *mut ffi::PyObject) -> Option<u32> {
    let mut len = 0;
    // SAFETY: the caller's promise; the str is read after its type was checked.
    unsafe {
        if pointer.is_null() || ffi::Py_TYPE(pointer) != symbols.str_type {
            return None;
        }
        if ffi::PyUnicode_AsUTF8AndSize(pointer, &mut len).is_null() {
            ffi::PyErr_Clear();
            return None;
        }
    }
    u32::try_from(len).ok()
}

/// A str of so many bytes as an emission.
#[inline(always)]
pub fn text_of_len(value: Bound<'_, PyAny>, len: u32) -> Emission {
    let payload = Payload::Foreign(foreign(value));
    Emission { payload, len, content_type: ContentType::TEXT, companion: None, delivery: Delivery::default() }
}

/// Emits an exact str, with a new reference to it. False for anything else.
///
/// # Safety
/// As for `text_len`.
#[inline(always)]
pub unsafe fn emit_text(
    py: Python<'_>,
    symbols: &Symbols,
    pointer: *mut ffi::PyObject,
    out: &mut Outbox,
) -> bool {
    // SAFETY: the caller's promise.
    let Some(len) = (unsafe { text_len(symbols, pointer) }) else { return false };
    // SAFETY: a live object, as its length says.
    out.emit(text_of_len(unsafe { Bound::from_borrowed_ptr(py, pointer) }, len));
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
    let (data, own_type) = if data.is_instance_of::<PyString>() {
        (data, ContentType::TEXT)
    } else if data.is_instance_of::<PyBytes>() {
        (data, ContentType::BINARY)
    } else if let Some(text) = json_text(symbols, &data)? {
        (text.into_any(), ContentType::JSON)
    } else {
        let kind = data.get_type().name()?;
        let message = format!("an Output's data is str, bytes, a dict or a dataclass, not {kind}");
        return Err(PyErr::from_value(
            symbols.contract_error.bind(py).call1(("contract.wrong-result", message))?,
        ));
    };
    let mut made =
        plain(&data, own_type).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.message))?;
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
