//! Values and errors on their way between SQLite and Python.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// A value for a statement. It borrows from the Python object, which the caller keeps.
pub enum Input<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

impl<'a> Input<'a> {
    pub fn all(values: Option<&'a Bound<'_, PyTuple>>) -> PyResult<Vec<Self>> {
        let Some(values) = values else { return Ok(Vec::new()) };
        (0..values.len()).map(|at| Self::new(values, at)).collect()
    }

    fn new(values: &'a Bound<'_, PyTuple>, at: usize) -> PyResult<Self> {
        let value = values.get_borrowed_item(at)?;
        if value.is_none() {
            return Ok(Self::Null);
        }
        if value.is_instance_of::<PyBytes>() {
            return Ok(Self::Blob(<&'a [u8]>::extract(value)?));
        }
        if value.is_instance_of::<PyString>() {
            return Ok(Self::Text(<&'a str>::extract(value)?));
        }
        let message = "a value is no int, str, bytes or None";
        value.extract().map(Self::Integer).map_err(|_| PyTypeError::new_err(message))
    }
}

impl ToSql for Input<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}

/// A value of a row.
pub enum Output {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl From<ValueRef<'_>> for Output {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Real(value),
            ValueRef::Text(text) => Self::Text(text.to_vec()),
            ValueRef::Blob(blob) => Self::Blob(blob.to_vec()),
        }
    }
}

impl Output {
    pub fn blob_bytes(&self) -> usize {
        if let Self::Blob(blob) = self { blob.len() } else { 0 }
    }

    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Null => py.None().into_bound(py),
            Self::Integer(value) => value.into_pyobject(py)?.into_any(),
            Self::Real(value) => value.into_pyobject(py)?.into_any(),
            // Damaged texts are decoded as well; the checksums of the store tell.
            Self::Text(text) => {
                let text = PyBytes::new(py, text);
                PyString::from_encoded_object(&text, Some(c"utf-8"), Some(c"surrogateescape"))?.into_any()
            }
            Self::Blob(blob) => PyBytes::new(py, blob).into_any(),
        })
    }
}

pub fn rows<'py>(py: Python<'py>, records: Vec<Vec<Output>>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for record in records {
        let values = record.iter().map(|value| value.to_python(py));
        list.append(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?)?;
    }
    Ok(list)
}

/// The error as Python's own module would raise it.
pub fn error(py: Python<'_>, error: &rusqlite::Error) -> PyErr {
    let Some(code) = error.sqlite_error().map(|error| error.extended_code) else {
        return PyValueError::new_err(error.to_string());
    };
    let message = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let made = py.import("sqlite3")?.getattr("OperationalError")?.call1((message,))?;
        made.setattr("sqlite_errorcode", code)?;
        Ok(made)
    };
    make().map_or_else(|failure| failure, PyErr::from_value)
}
