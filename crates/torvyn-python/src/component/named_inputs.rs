//! The named inputs of a Python component, which finds the name of the current one in `self.input`.

use pyo3::prelude::*;
use pyo3::types::PyString;

pub struct NamedInputs {
    names: Vec<Py<PyString>>,
    /// Sets `input` of the component.
    set: Py<PyAny>,
    current: Option<u16>,
}

impl NamedInputs {
    /// None if the inputs have no names.
    pub fn of(component: &Bound<'_, PyAny>, names: Vec<Py<PyString>>) -> PyResult<Option<Box<Self>>> {
        if names.is_empty() {
            return Ok(None);
        }
        let set = component.getattr("set_input")?.unbind();
        Ok(Some(Box::new(Self { names, set, current: None })))
    }

    /// The next element comes from this input.
    #[inline]
    pub fn set(&mut self, py: Python<'_>, input: u16) {
        if self.current == Some(input) {
            return;
        }
        self.current = Some(input);
        if let Err(error) = self.set.call1(py, (&self.names[usize::from(input)],)) {
            error.write_unraisable(py, Some(self.set.bind(py)));
        }
    }

    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.names.capacity() * size_of::<Py<PyString>>()
    }

    pub fn method(&self) -> &Py<PyAny> {
        &self.set
    }
}
