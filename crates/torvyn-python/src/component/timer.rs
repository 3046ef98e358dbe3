//! The timer of a Python component: `due_ns` says when it wants `on_timer`.
//!
//! The answer of `due_ns` is kept until the next call of the component, because only a call can change it.

use std::cell::{Cell, RefCell};

use pyo3::prelude::*;
use torvyn_stream::{ErrorKind, StageError};

use crate::component::call::call_none;
use crate::element::convert::type_name;

pub struct Timer {
    due_ns: Py<PyAny>,
    on_timer: Py<PyAny>,
    /// The last answer; None if the component was called since.
    known: Cell<Option<Option<u64>>>,
    /// Why `due_ns` failed. It is reported by the next `fire`.
    failure: RefCell<Option<StageError>>,
}

impl Timer {
    /// The timer of a component that has one.
    pub fn of(component: &Bound<'_, PyAny>) -> PyResult<Option<Box<Self>>> {
        let Ok(due_ns) = component.getattr("due_ns") else { return Ok(None) };
        Ok(Some(Box::new(Self {
            due_ns: due_ns.unbind(),
            on_timer: component.getattr("on_timer")?.unbind(),
            known: Cell::new(None),
            failure: RefCell::new(None),
        })))
    }

    /// The component was called, so that its answer may have changed.
    #[inline]
    pub fn forget(&self) {
        self.known.set(None);
    }

    pub fn due_ns(&self, py: Python<'_>) -> Option<u64> {
        if let Some(known) = self.known.get() {
            return known;
        }
        let due_ns = self.ask(py).unwrap_or_else(|error| {
            self.failure.replace(Some(error));
            Some(0)
        });
        self.known.set(Some(due_ns));
        due_ns
    }

    fn ask(&self, py: Python<'_>) -> Result<Option<u64>, StageError> {
        let value = call_none(py, &self.due_ns)?;
        if value.is_none() {
            return Ok(None);
        }
        let due_ns: i128 = value.extract().map_err(|_| {
            let kind = type_name(&value);
            let message = format!("`due_ns` returned an object of type {kind}, expected an int or None");
            StageError::new(ErrorKind::Contract, message)
        })?;
        Ok(Some(u64::try_from(due_ns.max(0)).unwrap_or(u64::MAX)))
    }

    /// Calls `on_timer`.
    pub fn fire<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, StageError> {
        self.forget();
        match self.failure.take() {
            Some(error) => Err(error),
            None => call_none(py, &self.on_timer),
        }
    }

    pub fn methods(&self) -> [&Py<PyAny>; 2] {
        [&self.due_ns, &self.on_timer]
    }
}
