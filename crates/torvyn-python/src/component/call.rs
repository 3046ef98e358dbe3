//! Calls of Python methods and iterators with little overhead. The caller must be attached.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use torvyn_stream::StageError;

use crate::element::convert::component_error;

type Vectorcall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// `PyObject_Vectorcall` is in the stable ABI since 3.12, and exported with the same signature since 3.9. The look-up by
/// name lets one wheel serve both.
#[inline]
fn vectorcall() -> Option<Vectorcall> {
    static FOUND: OnceLock<Option<Vectorcall>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: a look-up by name; the signature is the documented one.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"PyObject_Vectorcall".as_ptr());
            (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, Vectorcall>(found))
        }
    })
}

/// Calls with one argument, without a tuple.
#[inline]
pub fn call_one<'py>(
    py: Python<'py>,
    method: &Py<PyAny>,
    argument: *mut ffi::PyObject,
) -> Result<Bound<'py, PyAny>, StageError> {
    // SAFETY: attached, both live; the result is a new reference or null with an exception set. The slot before the
    // argument is ours to lend, as the offset flag says.
    unsafe {
        let result = match vectorcall() {
            Some(call) => {
                let slots = [std::ptr::null_mut(), argument];
                call(method.as_ptr(), slots.as_ptr().add(1), 1 | ARGUMENTS_OFFSET, std::ptr::null_mut())
            }
            None => {
                let null = std::ptr::null_mut::<ffi::PyObject>();
                ffi::PyObject_CallFunctionObjArgs(method.as_ptr(), argument, null)
            }
        };
        Bound::from_owned_ptr_or_err(py, result).map_err(|error| component_error(py, error))
    }
}

#[inline]
pub fn call_none<'py>(py: Python<'py>, method: &Py<PyAny>) -> Result<Bound<'py, PyAny>, StageError> {
    // SAFETY: as above.
    unsafe {
        let null = std::ptr::null_mut::<ffi::PyObject>();
        let result = ffi::PyObject_CallFunctionObjArgs(method.as_ptr(), null);
        Bound::from_owned_ptr_or_err(py, result).map_err(|error| component_error(py, error))
    }
}

/// The next item of an iterator, or the value it returned at its end.
pub enum Next<'py> {
    Item(Bound<'py, PyAny>),
    Stop(Option<Bound<'py, PyAny>>),
}

/// The slot that advances an iterator. A direct call also gets a generator's return value.
pub fn advance_of(iterator: &Bound<'_, PyAny>) -> ffi::iternextfunc {
    // SAFETY: attached; the object is an iterator, so its type has the slot, which is of this type.
    unsafe {
        let slot = ffi::PyType_GetSlot(ffi::Py_TYPE(iterator.as_ptr()), ffi::Py_tp_iternext);
        std::mem::transmute::<*mut std::ffi::c_void, ffi::iternextfunc>(slot)
    }
}

#[inline]
pub fn next<'py>(
    py: Python<'py>,
    iterator: &Py<PyAny>,
    advance: ffi::iternextfunc,
) -> Result<Next<'py>, StageError> {
    // SAFETY: attached; the slot is the iterator's own.
    unsafe {
        if let Some(item) = Bound::from_owned_ptr_or_opt(py, advance(iterator.as_ptr())) {
            return Ok(Next::Item(item));
        }
    }
    match PyErr::take(py) {
        None => Ok(Next::Stop(None)),
        Some(error) if error.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => {
            Ok(Next::Stop(error.value(py).getattr("value").ok()))
        }
        Some(error) => Err(component_error(py, error)),
    }
}
