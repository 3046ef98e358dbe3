//! Python objects inside native elements: the table through which `torvyn-stream` handles them.
//!
//! A flow without Python components runs detached, and its elements may still carry Python objects: the attributes that
//! a guest sets. So every function here works on any thread. Those that use the object attach for themselves, which on
//! an attached thread is a check of a counter.

use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use torvyn_stream::{Foreign, ForeignTable};

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

unsafe fn stream(pointer: NonNull<()>) -> (*const u8, usize, i64) {
    Python::attach(|py| {
        // SAFETY: the caller keeps the companion alive.
        let Some(all) = (unsafe { attributes(py, pointer) }) else { return (std::ptr::null(), 0, 0) };
        let item = |name: &str| all.get_item(name).ok().flatten();
        let choice = item("choice").and_then(|choice| choice.extract().ok()).unwrap_or(0);
        let Some(kind) = item("kind") else { return (std::ptr::null(), 0, choice) };
        let Ok(kind) = kind.cast::<PyString>() else { return (std::ptr::null(), 0, choice) };
        // The dict keeps the str, and the str its UTF-8.
        kind.to_str().map_or((std::ptr::null(), 0, choice), |kind| (kind.as_ptr(), kind.len(), choice))
    })
}
