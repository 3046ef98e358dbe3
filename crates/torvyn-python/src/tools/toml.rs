//! The border of `torvyn_tools::toml`: a tree of tuples, or `TomlError` with its fields.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use torvyn_tools::toml::{Entry, Error, Node, Value, parse};

create_exception!(
    torvyn._native,
    TomlError,
    PyValueError,
    "Text that is not TOML. `args` are the kind (`syntax` or `too-deep`), the parser's words, and the bytes it speaks of."
);

/// Reads TOML into `(kind, start, end, value)`, where start and end count the bytes of the UTF-8 text.
///
/// A table's value is a list of `(key, key_start, key_end, node)`, an array's a list of nodes.
#[pyfunction]
pub fn parse_toml<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyTuple>> {
    match parse(text) {
        Ok(root) => node(py, &root),
        Err(error) => Err(component_error(&error)),
    }
}

fn component_error(error: &Error) -> PyErr {
    let (kind, message, span) = match error {
        Error::Syntax { message, span } => ("syntax", message.as_str(), span),
        Error::TooDeep { span } => ("too-deep", "", span),
    };
    TomlError::new_err((kind, message.to_owned(), span.start, span.end))
}

fn node<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyTuple>> {
    let (kind, value) = match &node.value {
        Value::Text(text) => ("string", text.into_pyobject(py)?.into_any()),
        Value::Integer(number) => ("integer", number.into_pyobject(py)?.into_any()),
        Value::Float(number) => ("float", number.into_pyobject(py)?.into_any()),
        Value::Boolean(truth) => ("boolean", truth.into_pyobject(py)?.to_owned().into_any()),
        Value::Datetime(text) => ("datetime", text.into_pyobject(py)?.into_any()),
        Value::Array(nodes) => ("array", array(py, nodes)?.into_any()),
        Value::Table(entries) => ("table", table(py, entries)?.into_any()),
    };
    (kind, node.span.start, node.span.end, value).into_pyobject(py)
}

fn array<'py>(py: Python<'py>, nodes: &[Node]) -> PyResult<Bound<'py, PyList>> {
    let items: PyResult<Vec<_>> = nodes.iter().map(|item| node(py, item)).collect();
    PyList::new(py, items?)
}

fn table<'py>(py: Python<'py>, entries: &[Entry]) -> PyResult<Bound<'py, PyList>> {
    let items: PyResult<Vec<_>> = entries
        .iter()
        .map(|entry| {
            let held = node(py, &entry.node)?;
            (&entry.key, entry.span.start, entry.span.end, held).into_pyobject(py)
        })
        .collect();
    PyList::new(py, items?)
}
