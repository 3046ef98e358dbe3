//! Stop strings as a Python class.

use pyo3::prelude::*;
use torvyn_text::holdback::{self, StopsError};

use crate::symbols::Symbols;

/// Passes text up to the first stop string that completes.
#[pyclass(module = "torvyn._native")]
pub struct StopStrings(holdback::StopStrings);

fn refused(py: Python<'_>, error: &StopsError) -> PyErr {
    let made =
        Symbols::get(py).and_then(|symbols| symbols.invalid_input.bind(py).call1((error.to_string(),)));
    made.map_or_else(|error| error, PyErr::from_value)
}

#[pymethods]
impl StopStrings {
    #[new]
    #[pyo3(signature = (stops, include=false))]
    fn new(py: Python<'_>, stops: Vec<String>, include: bool) -> PyResult<Self> {
        holdback::StopStrings::new(stops, include).map(Self).map_err(|error| refused(py, &error))
    }

    /// Takes text; returns what can no longer be part of a stop string. After a match it returns nothing.
    fn put(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + self.0.buffered().len());
        self.0.put(text, &mut out);
        out
    }

    /// Ends the input and returns the buffered text.
    fn finish(&mut self) -> String {
        let mut out = String::new();
        self.0.finish(&mut out);
        out
    }

    /// Changes the stop strings for the buffered and the coming text; returns what can be sent now. A match stays.
    fn replace(&mut self, py: Python<'_>, stops: Vec<String>) -> PyResult<String> {
        let mut out = String::new();
        self.0.replace(stops, &mut out).map_err(|error| refused(py, &error))?;
        Ok(out)
    }

    /// The stop that completed.
    #[getter]
    fn matched(&self) -> Option<&str> {
        self.0.matched()
    }

    /// Bytes in the buffer.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.0.buffered().len()
    }
}
