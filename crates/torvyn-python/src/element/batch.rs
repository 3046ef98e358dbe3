//! `torvyn.Batch` for Python: the elements of one call, as a sequence.
//!
//! During the call it reads the queue's slots in place, so a component that only reads `texts` costs no object per
//! element. A batch that the component keeps gets objects of its own when the call ends.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};
use std::thread::ThreadId;

use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PySlice, PyString, PyTuple};
use torvyn_stream::{Batch, Element};

use crate::element::convert::{NodeContext, companion};
use crate::element::foreign::object;
use crate::element::{Data, PyElement};
use crate::lock::lock;
use crate::symbols::Symbols;

/// Slots of a queue that are lent for one call.
#[derive(Clone, Copy)]
struct Lent {
    parts: [(NonNull<Element>, usize); 2],
    node_context: NonNull<NodeContext>,
    thread: ThreadId,
}

enum State {
    Lent(Lent),
    /// Objects, after the call or without one.
    Owned(Py<PyTuple>),
}

// SAFETY: the pointers are used on the thread of the call only, and only while it lasts.
unsafe impl Send for State {}

#[pyclass(frozen, module = "torvyn", name = "Batch", sequence)]
pub struct PyBatch(Mutex<State>);

impl PyBatch {
    /// A batch that reads `elements` in place. The caller must call `take_back` before it changes them.
    pub fn lend<'py>(
        py: Python<'py>,
        elements: &mut Batch<'_>,
        node_context: &NodeContext,
    ) -> PyResult<Bound<'py, Self>> {
        let part = |slots: &mut [Element]| (NonNull::from(&mut *slots).cast(), slots.len());
        let lent = Lent {
            parts: [part(elements.first), part(elements.second)],
            node_context: NonNull::from(node_context),
            thread: std::thread::current().id(),
        };
        Bound::new(py, Self(Mutex::new(State::Lent(lent))))
    }

    /// Ends the loan. If the component kept the batch, it gets objects of its own.
    pub fn take_back(batch: &Bound<'_, Self>) -> PyResult<()> {
        let py = batch.py();
        let this = batch.get();
        // SAFETY: attached, on a live object.
        let is_kept = unsafe { ffi::Py_REFCNT(batch.as_ptr()) } > 1;
        let owned =
            if is_kept { this.objects(py).map(|list| list.to_tuple()) } else { Ok(PyTuple::empty(py)) };
        // Whatever happened, nothing reads the slots from now on.
        *this.lock() = State::Owned(PyTuple::empty(py).unbind());
        *this.lock() = State::Owned(owned?.unbind());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// The loan, or the objects. The lock is not held while Python code may run.
    fn view<'py>(&self, py: Python<'py>) -> PyResult<View<'py>> {
        match &*self.lock() {
            State::Owned(objects) => Ok(View::Owned(objects.bind(py).clone())),
            State::Lent(lent) if lent.thread == std::thread::current().id() => Ok(View::Lent(*lent)),
            State::Lent(_) => Err(PyRuntimeError::new_err(
                "another thread may read a batch only after the call that it belongs to; pass it `list(elements)`",
            )),
        }
    }

    /// All elements as objects.
    fn objects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.view(py)? {
            View::Owned(objects) => Ok(objects.to_list()),
            View::Lent(lent) => lent.list(py, |slot| lent.element(py, slot)),
        }
    }
}

enum View<'py> {
    Lent(Lent),
    Owned(Bound<'py, PyTuple>),
}

impl Lent {
    fn len(&self) -> usize {
        self.parts[0].1 + self.parts[1].1
    }

    fn slot(&self, at: usize) -> Option<NonNull<Element>> {
        let [(first, count), (second, more)] = self.parts;
        match at {
            // SAFETY: inside the part.
            at if at < count => Some(unsafe { first.add(at) }),
            at if at < count + more => Some(unsafe { second.add(at - count) }),
            _ => None,
        }
    }

    /// A list with an item for each slot.
    fn list<'py>(
        &self,
        py: Python<'py>,
        item: impl Fn(NonNull<Element>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        // SAFETY: attached. The list has no readers before it is full: it is dropped if an item fails, and empty slots
        // are null, which the list allows. `PyList_SetItem` takes over the reference.
        unsafe {
            let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(self.len() as isize))?;
            let mut at = 0;
            for (first, count) in self.parts {
                for offset in 0..count {
                    ffi::PyList_SetItem(list.as_ptr(), at, item(first.add(offset))?.into_ptr());
                    at += 1;
                }
            }
            Ok(list.cast_into_unchecked())
        }
    }

    /// The `Element` object of a slot.
    fn element<'py>(&self, py: Python<'py>, mut slot: NonNull<Element>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: lent, on the thread of the call, and nothing else reads the slot now. The companion keeps the object.
        unsafe {
            let made = companion(py, Symbols::get(py)?, slot.as_mut(), self.node_context.as_ref())?;
            Ok(Bound::from_borrowed_ptr(py, made))
        }
    }

    #[inline]
    fn text<'py>(&self, py: Python<'py>, slot: NonNull<Element>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: as above.
        if let Some(payload) = unsafe { slot.as_ref() }.payload.foreign() {
            let payload = object(py, payload);
            if payload.is_exact_instance_of::<PyString>() {
                return Ok(payload);
            }
        }
        text(&self.element(py, slot)?)
    }

    fn payload<'py>(&self, py: Python<'py>, slot: NonNull<Element>) -> PyResult<Bound<'py, PyAny>> {
        payload(&self.element(py, slot)?)
    }
}

fn text<'py>(element: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    element.getattr(pyo3::intern!(element.py(), "text"))
}

fn payload<'py>(element: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = element.py();
    let element = element.cast::<PyElement>()?.get();
    if let Data::Bytes(bytes) = &element.data {
        return Ok(bytes.bind(py).clone().into_any());
    }
    element.note_read();
    Ok(PyBytes::new(py, element.view(py)?).into_any())
}

#[pymethods]
impl PyBatch {
    /// A batch of elements, or of str and bytes, for a test of a component.
    #[new]
    fn new(elements: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = elements.py();
        let made: Vec<_> =
            elements.try_iter()?.map(|item| item.and_then(as_element)).collect::<PyResult<_>>()?;
        Ok(Self(Mutex::new(State::Owned(PyTuple::new(py, made)?.unbind()))))
    }

    /// The payloads as text; raises `InvalidInput` when one is not UTF-8.
    #[getter]
    fn texts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.view(py)? {
            View::Lent(lent) => lent.list(py, |slot| lent.text(py, slot)),
            View::Owned(objects) => {
                let texts: Vec<_> = objects.iter().map(|element| text(&element)).collect::<PyResult<_>>()?;
                PyList::new(py, texts)
            }
        }
    }

    /// The payloads as bytes.
    #[getter]
    fn payloads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.view(py)? {
            View::Lent(lent) => lent.list(py, |slot| lent.payload(py, slot)),
            View::Owned(objects) => {
                let all: Vec<_> = objects.iter().map(|element| payload(&element)).collect::<PyResult<_>>()?;
                PyList::new(py, all)
            }
        }
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(match self.view(py)? {
            View::Lent(lent) => lent.len(),
            View::Owned(objects) => objects.len(),
        })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, at: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if at.is_instance_of::<PySlice>() {
            return self.objects(py)?.as_any().get_item(at);
        }
        let lent = match self.view(py)? {
            View::Lent(lent) => lent,
            View::Owned(objects) => return objects.as_any().get_item(at),
        };
        let position: isize = at.extract()?;
        let position = if position < 0 { position + lent.len() as isize } else { position };
        let slot = usize::try_from(position).ok().and_then(|position| lent.slot(position));
        lent.element(py, slot.ok_or_else(|| PyIndexError::new_err("batch index out of range"))?)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.objects(py)?.try_iter()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Batch({})", self.objects(py)?.repr()?))
    }
}

fn as_element(item: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if item.is_instance_of::<PyElement>() {
        return Ok(item);
    }
    item.py().get_type::<PyElement>().call1((item,))
}
