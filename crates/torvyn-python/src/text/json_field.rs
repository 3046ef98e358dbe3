//! A field of an element that is a flat JSON object.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::element::PyElement;

/// The text of the field, or None where a parser must look.
#[pyfunction]
pub fn text_field<'py>(element: &Bound<'py, PyAny>, name: &str) -> Option<Bound<'py, PyString>> {
    let py = element.py();
    let element = element.cast::<PyElement>().ok()?.get();
    let text = torvyn_text::text_field(element.view(py).ok()?, name)?;
    Some(PyString::new(py, text))
}
