//! Python objects inside native elements: the table through which `torvyn-stream` handles them.
//!
//! A flow without Python components runs detached, and its elements may still carry Python objects: the attributes that
//! a guest sets. So every function here works on any thread. Those that use the object attach for themselves, which on
//! an attached thread is a check of a counter.

use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use torvyn_stream::{Foreign, ForeignTable, TextStream};

use crate::element::PyElement;

static TABLE: ForeignTable = ForeignTable { retain, release, view, inherit, bare, stream };

pub fn foreign(object: Bound<'_, PyAny>) -> Foreign {
    // SAFETY: an owned, non-null reference that TABLE handles.
    unsafe { Foreign::from_owned(NonNull::new_unchecked(object.into_ptr().cast()), &TABLE) }
}

pub fn object<'py>(py: Python<'py>, foreign: &Foreign) -> Bound<'py, PyAny> {
    // SAFETY: every `Foreign` of this process was made by `foreign` above.
    unsafe { Bound::from_borrowed_ptr(py, foreign.as_ptr().as_ptr().cast()) }
}

unsafe fn retain(pointer: NonNull<()>) {
    // SAFETY: attached, on a live object.
    Python::attach(|_| unsafe { ffi::Py_INCREF(pointer.as_ptr().cast()) });
}

unsafe fn release(pointer: NonNull<()>) {
    // SAFETY: an owned reference, and `Py` is a transparent pointer to an object. Dropping a `Py` needs no attachment: on
    // a detached thread it leaves the reference for the next thread that attaches.
    drop(unsafe { std::mem::transmute::<NonNull<()>, Py<PyAny>>(pointer) });
}

unsafe fn view(pointer: NonNull<()>) -> (*const u8, usize, bool) {
    let object: *mut ffi::PyObject = pointer.as_ptr().cast();
    // The bytes outlive the attachment: they belong to the object, which the caller keeps, and never change.
    // SAFETY: attached, on a live str or bytes object.
    Python::attach(|_| unsafe {
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
    })
}

unsafe fn inherit(pointer: NonNull<()>) -> Option<NonNull<()>> {
    // SAFETY: the caller keeps the companion alive.
    Python::attach(|py| NonNull::new(unsafe { attributes(py, pointer) }?.into_ptr().cast()))
}

/// The attributes of a companion, which is an Element or a dict of them.
///
/// # Safety
/// `pointer` is a live companion.
unsafe fn attributes<'py>(py: Python<'py>, pointer: NonNull<()>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: the caller's promise.
    let object = unsafe { Bound::from_borrowed_ptr(py, pointer.as_ptr().cast()) };
    match object.cast::<PyElement>() {
        Ok(element) => Some(element.get().attributes.as_ref()?.bind(py).clone()),
        Err(_) => object.cast_into::<PyDict>().ok(),
    }
}

/// Attributes that belong to single tokens, and so reveal their text.
const TOKEN_ATTRIBUTES: [&str; 4] = ["token_ids", "token_id", "logprobs", "top_logprobs"];

unsafe fn bare(pointer: NonNull<()>) -> Option<NonNull<()>> {
    Python::attach(|py| {
        // SAFETY: the caller keeps the companion alive.
        let all = unsafe { attributes(py, pointer) }?;
        let mut dict = all.clone();
        for name in TOKEN_ATTRIBUTES {
            if dict.contains(name).unwrap_or(false) {
                if dict.is(&all) {
                    dict = all.copy().ok()?;
                }
                dict.del_item(name).ok()?;
            }
        }
        NonNull::new(dict.into_ptr().cast())
    })
}

unsafe fn stream(pointer: NonNull<()>) -> Result<TextStream, String> {
    Python::attach(|py| {
        // SAFETY: the caller keeps the companion alive.
        let Some(all) = (unsafe { attributes(py, pointer) }) else { return Ok((std::ptr::null(), 0, 0)) };
        let (kind, choice) = text_stream(&all)?;
        // The dict keeps the str, and the str its UTF-8.
        let kind = kind.as_ref().and_then(|kind| kind.to_str().ok());
        Ok(kind.map_or((std::ptr::null(), 0, choice), |kind| (kind.as_ptr(), kind.len(), choice)))
    })
}

/// The kind and the choice of an element's text. Values that could tell two texts apart, but not to the guards, are an
/// error: the guards would join the two.
pub fn text_stream<'py>(
    attributes: &Bound<'py, PyDict>,
) -> Result<(Option<Bound<'py, PyString>>, i64), String> {
    let item = |name: &str| match attributes.get_item(name) {
        Ok(value) => Ok(value.filter(|value| !value.is_none())),
        Err(error) => Err(format!("the attribute `{name}` cannot be read: {error}")),
    };
    let kind = item("kind")?.map(|kind| match kind.cast::<PyString>() {
        Ok(name) if name.to_str().is_ok() => Ok(name.clone()),
        _ => Err(wrong_value("kind", "text", &kind)),
    });
    let choice = item("choice")?
        .map(|choice| choice.extract().map_err(|_| wrong_value("choice", "a whole number", &choice)));
    Ok((kind.transpose()?, choice.transpose()?.unwrap_or(0)))
}

fn wrong_value(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> String {
    let class = value.get_type();
    let class = class.name().map_or_else(|_| "?".to_owned(), |class| class.to_string());
    let repr =
        value.repr().ok().and_then(|repr| repr.to_str().map(|repr| repr.chars().take(80).collect()).ok());
    let value: String = repr.unwrap_or_else(|| "a value".to_owned());
    format!("the attribute `{name}` must be {expected}, not {value} ({class})")
}
