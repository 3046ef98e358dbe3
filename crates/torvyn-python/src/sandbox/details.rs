//! Attributes and ends for guests that import `details`: values become JSON with Python's own `json`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use torvyn_sandbox::{Attribute, Ending, Translator};
use torvyn_stream::{End, Foreign};

use crate::element::convert::{end_object, end_of};
use crate::element::foreign::{foreign, object};
use crate::symbols::Symbols;

/// Converts Python's attributes and ends.
pub struct Words;

impl Translator for Words {
    fn attributes(&self, companion: &Foreign) -> Vec<Attribute> {
        Python::attach(|py| attributes(py, companion).unwrap_or_default())
    }

    fn companion(&self, attributes: &[Attribute]) -> Result<Foreign, String> {
        Python::attach(|py| {
            let loads = json(py, "loads")?;
            let made = PyDict::new(py);
            for attribute in attributes {
                made.set_item(&attribute.name, loads.call1((&attribute.value,))?)?;
            }
            Ok(foreign(made.into_any()))
        })
        .map_err(|error: PyErr| format!("an attribute is not valid JSON: {error}"))
    }

    fn ending(&self, end: &End) -> Ending {
        Python::attach(|py| ending(py, end)).unwrap_or_else(|_| Ending {
            finish_reason: end.finish_reason.clone(),
            reason: end.detail.clone(),
            matched_stop: None,
            usage: None,
        })
    }

    fn end(&self, ending: &Ending) -> Result<End, String> {
        Python::attach(|py| made_end(py, ending))
            .map_err(|error| format!("the end's usage is not valid JSON: {error}"))
    }
}

fn json<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.getattr(name)
}

/// Values that JSON cannot express become their text.
fn dumps(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let arguments = PyDict::new(py);
    arguments.set_item("default", py.get_type::<PyString>())?;
    arguments.set_item("ensure_ascii", false)?;
    json(py, "dumps")?.call((value,), Some(&arguments))?.extract()
}

fn attributes(py: Python<'_>, companion: &Foreign) -> PyResult<Vec<Attribute>> {
    let Some(attributes) = companion.inherit() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (name, value) in object(py, &attributes).cast::<PyDict>()?.iter() {
        found.push(Attribute { name: name.extract()?, value: dumps(py, &value)? });
    }
    Ok(found)
}

fn ending(py: Python<'_>, end: &End) -> PyResult<Ending> {
    let end = end_object(py, Symbols::get(py)?, end)?;
    let usage = end.getattr("usage")?;
    let usage = match usage.cast::<PyMapping>() {
        Ok(mapping) => {
            let copy = PyDict::new(py);
            copy.update(mapping)?;
            Some(dumps(py, copy.as_any())?)
        }
        Err(_) => None,
    };
    Ok(Ending {
        finish_reason: end.getattr("finish_reason")?.extract()?,
        reason: end.getattr("reason")?.extract()?,
        matched_stop: end.getattr("matched_stop")?.extract()?,
        usage,
    })
}

fn made_end(py: Python<'_>, ending: &Ending) -> PyResult<End> {
    let symbols = Symbols::get(py)?;
    let facts = PyDict::new(py);
    facts.set_item("finish_reason", &ending.finish_reason)?;
    facts.set_item("reason", &ending.reason)?;
    facts.set_item("matched_stop", &ending.matched_stop)?;
    if let Some(usage) = &ending.usage {
        facts.set_item("usage", json(py, "loads")?.call1((usage,))?)?;
    }
    let made = symbols.end_type.bind(py).call((), Some(&facts))?;
    let plain = End::because(&ending.finish_reason);
    Ok(end_of(symbols, &made).unwrap_or(plain))
}
