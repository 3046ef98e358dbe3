//! `TextStreamer`: token ids or bytes in, text out.
//!
//! One call takes one id, many ids or bytes, and allocates only the text it returns.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString};
use torvyn_text::{Bad, Policies, StreamError, Streamer, Unknown};

use crate::text::token_table::TokenTable;

/// Turns streaming token ids or bytes into text.
#[pyclass(module = "torvyn._native")]
pub struct TextStreamer {
    streamer: Streamer,
    ids: Vec<i64>,
    /// The first id of this call with more than 64 bits, for the error message.
    wide: Option<Py<PyAny>>,
    out: String,
}

#[pymethods]
impl TextStreamer {
    #[new]
    #[pyo3(signature = (vocabulary=None, *, skip_special=true, tail="replace", bad_bytes="replace", unknown="error", graphemes=false, continues=false))]
    fn new(
        vocabulary: Option<PyRef<'_, TokenTable>>,
        skip_special: bool,
        tail: &str,
        bad_bytes: &str,
        unknown: &str,
        graphemes: bool,
        continues: bool,
    ) -> PyResult<Self> {
        let policies = Policies {
            skip_special,
            tail: bad("tail", tail)?,
            bad_bytes: bad("bad_bytes", bad_bytes)?,
            unknown: match unknown {
                "error" => Unknown::Error,
                "skip" => Unknown::Skip,
                "replace" => Unknown::Replace,
                _ => return Err(no_policy("unknown", "`error`, `skip` or `replace`", unknown)),
            },
            graphemes,
            continues,
        };
        let vocabulary = vocabulary.map(|table| table.0.clone());
        Ok(Self {
            streamer: Streamer::new(vocabulary, policies),
            ids: Vec::new(),
            wide: None,
            out: String::new(),
        })
    }

    /// The text that this id, these ids or these bytes complete.
    fn put<'py>(&mut self, py: Python<'py>, tokens: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
        self.wide = None;
        if tokens.is_exact_instance_of::<PyInt>() {
            let id = self.id(tokens)?;
            if let Some(text) = self.streamer.plain(id) {
                return Ok(PyString::new(py, text));
            }
            self.ids.clear();
            self.ids.push(id);
            return self.put_ids(py);
        }
        if let Ok(bytes) = tokens.cast::<PyBytes>() {
            return self.put_bytes(py, bytes.as_bytes());
        }
        self.ids.clear();
        match self.collect(tokens)? {
            Some(bytes) => self.put_bytes(py, &bytes),
            None => self.put_ids(py),
        }
    }

    /// Ends the input: returns the buffered text as the tail policy says, and resets the streamer.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.out.clear();
        let done = self.streamer.finish(&mut self.out);
        self.answer(py, done)
    }

    /// Resets the streamer.
    fn clear(&mut self) {
        self.streamer.clear();
    }

    /// Bytes of an incomplete character, and of a grapheme that may continue.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.streamer.held_bytes()
    }
}

impl TextStreamer {
    fn put_ids<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.out.clear();
        let done = self.streamer.put_ids(&self.ids, &mut self.out);
        self.answer(py, done)
    }

    fn put_bytes<'py>(&mut self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
        self.out.clear();
        let done = self.streamer.put_bytes(bytes, &mut self.out);
        self.answer(py, done)
    }

    fn answer<'py>(&self, py: Python<'py>, done: Result<(), StreamError>) -> PyResult<Bound<'py, PyString>> {
        match done {
            Ok(()) => Ok(PyString::new(py, &self.out)),
            Err(error) => Err(complain(py, error, self.wide.as_ref())?),
        }
    }

    /// The id as a 64-bit number. One with more bits is in no vocabulary and becomes an id that is in none either.
    fn id(&mut self, token: &Bound<'_, PyAny>) -> PyResult<i64> {
        let py = token.py();
        token.extract().or_else(|error: PyErr| {
            if !error.is_instance_of::<PyOverflowError>(py) {
                return Err(error);
            }
            self.wide.get_or_insert_with(|| token.clone().unbind());
            Ok(if token.gt(0)? { i64::MAX } else { i64::MIN })
        })
    }

    /// Fills `ids`, or returns the bytes of a buffer.
    fn collect(&mut self, tokens: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        if let Ok(list) = tokens.cast::<PyList>() {
            for item in list {
                let id = self.id(&item)?;
                self.ids.push(id);
            }
            return Ok(None);
        }
        if tokens.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("put takes token ids or bytes, not str"));
        }
        if let Ok(id) = self.id(tokens) {
            self.ids.push(id);
            return Ok(None);
        }
        if let Ok(buffer) = PyBuffer::<u8>::get(tokens) {
            return buffer.to_vec(tokens.py()).map(Some);
        }
        if self.take_buffer::<i64>(tokens, |id| id)?
            || self.take_buffer::<i32>(tokens, i64::from)?
            || self.take_buffer::<u32>(tokens, i64::from)?
            || self.take_buffer::<u16>(tokens, i64::from)?
            || self.take_wide(tokens)?
        {
            return Ok(None);
        }
        let Ok(items) = tokens.try_iter() else {
            let name = tokens.get_type().name()?;
            return Err(PyTypeError::new_err(format!("put takes a token id, ids or bytes, not {name}")));
        };
        for item in items {
            let id = self.id(&item?)?;
            self.ids.push(id);
        }
        Ok(None)
    }

    fn take_wide(&mut self, tokens: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(buffer) = PyBuffer::<u64>::get(tokens) else {
            return Ok(false);
        };
        for wide in buffer.to_vec(tokens.py())? {
            let id = self.id(&wide.into_pyobject(tokens.py())?.into_any())?;
            self.ids.push(id);
        }
        Ok(true)
    }

    fn take_buffer<T: Element>(&mut self, tokens: &Bound<'_, PyAny>, widen: fn(T) -> i64) -> PyResult<bool> {
        let Ok(buffer) = PyBuffer::<T>::get(tokens) else {
            return Ok(false);
        };
        self.ids.extend(buffer.to_vec(tokens.py())?.into_iter().map(widen));
        Ok(true)
    }
}

fn bad(option: &str, policy: &str) -> PyResult<Bad> {
    match policy {
        "replace" => Ok(Bad::Replace),
        "drop" => Ok(Bad::Drop),
        "error" => Ok(Bad::Error),
        _ => Err(no_policy(option, "`replace`, `drop` or `error`", policy)),
    }
}

fn no_policy(option: &str, allowed: &str, policy: &str) -> PyErr {
    PyValueError::new_err(format!("{option} is {allowed}, not {policy:?}"))
}

/// The exception that Python creates from an error's fields.
fn complain(py: Python<'_>, error: StreamError, wide: Option<&Py<PyAny>>) -> PyResult<PyErr> {
    let module = py.import(intern!(py, "torvyn.text._errors"))?;
    let exception = match error {
        StreamError::UnknownId { id, size } => match wide.filter(|_| id == i64::MAX || id == i64::MIN) {
            Some(wide) => module.call_method1("token_unknown", (wide, size)),
            None => module.call_method1("token_unknown", (id, size)),
        },
        StreamError::NoVocabulary => module.call_method0("no_vocabulary"),
        StreamError::BadBytes { bytes } => module.call_method1("bytes_invalid", (PyBytes::new(py, &bytes),)),
        StreamError::Unfinished { bytes } => {
            module.call_method1("tail_unfinished", (PyBytes::new(py, &bytes),))
        }
    }?;
    Ok(PyErr::from_value(exception))
}
