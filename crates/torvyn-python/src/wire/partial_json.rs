//! Partial JSON as Python objects that grow.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use torvyn_frames::{Build, PartialError, Scalar, partial};

use crate::wire::events::failure;

/// Python sees these containers: what is added later appears in them.
struct Tree<'py> {
    py: Python<'py>,
    value_so_far: &'py mut Value,
}

#[derive(Default)]
struct Value {
    root: Option<Py<PyAny>>,
    open: Vec<Container>,
    /// The string that is open.
    text: Option<String>,
    /// How much of it Python has seen.
    shown: usize,
    problem: Option<PyErr>,
}

enum Container {
    Object(Py<PyDict>, Option<Py<PyString>>),
    /// Whether its last item is the open string.
    Array(Py<PyList>, bool),
}

/// Parses tool arguments and other JSON while it arrives.
#[pyclass(module = "torvyn._native")]
pub struct PartialJson {
    parser: partial::PartialJson,
    value_so_far: Value,
}

fn wrong_result(py: Python<'_>, error: PartialError) -> PyErr {
    match error {
        PartialError::Malformed { at } => failure(py, "json-malformed", at),
        PartialError::TooDeep { limit } => failure(py, "json-too-deep", limit),
        PartialError::Unfinished { at } => failure(py, "json-unfinished", at),
    }
}

#[pymethods]
impl PartialJson {
    #[new]
    #[pyo3(signature = (*, depth_limit=128))]
    fn new(depth_limit: usize) -> Self {
        Self { parser: partial::PartialJson::new(depth_limit), value_so_far: Value::default() }
    }

    /// Takes a piece of the text; every character is read once.
    fn put(&mut self, py: Python<'_>, text: &Bound<'_, PyString>) -> PyResult<()> {
        let Self { parser, value_so_far } = self;
        // Single halves of surrogate pairs are not text: they are replaced.
        let outcome = parser.put(&text.to_string_lossy(), &mut Tree { py, value_so_far });
        outcome.map_err(|error| wrong_result(py, error))?;
        self.value_so_far.problem.take().map_or(Ok(()), Err)
    }

    /// Ends the input: returns the value. Raises if it is incomplete.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self { parser, value_so_far } = self;
        let outcome = parser.finish(&mut Tree { py, value_so_far });
        outcome.map_err(|error| wrong_result(py, error))?;
        match self.value_so_far.problem.take() {
            Some(error) => Err(error),
            None => self.value(py),
        }
    }

    /// The value so far: complete keys, numbers and literals, and strings as far as they have come. None before it
    /// begins. Containers are not copied: they grow. An open string is copied each time it has grown.
    #[getter]
    fn value(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.value_so_far.show_text(py)?;
        Ok(self.value_so_far.root.as_ref().map_or_else(|| py.None(), |root| root.clone_ref(py)))
    }

    /// Whether the value is complete.
    #[getter]
    fn is_complete(&self) -> bool {
        self.parser.is_complete()
    }
}

impl Value {
    /// Stores the open string where Python sees it.
    fn show_text(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(text) = &self.text else { return Ok(()) };
        if self.shown == text.len() + 1 {
            return Ok(());
        }
        self.shown = text.len() + 1;
        let value = PyString::new(py, text).into_any().unbind();
        self.place(py, value, true)
    }

    /// Stores a value in the open container, or at the root. An open string replaces its earlier version.
    fn place(&mut self, py: Python<'_>, value: Py<PyAny>, is_open_text: bool) -> PyResult<()> {
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Container::Object(dict, key)) => {
                if let Some(key) = key {
                    dict.bind(py).set_item(key.bind(py), value)?;
                }
            }
            Some(Container::Array(list, has_open_text)) => {
                let list = list.bind(py);
                if *has_open_text {
                    list.set_item(list.len() - 1, value)?;
                } else {
                    list.append(value)?;
                }
                *has_open_text = is_open_text;
            }
        }
        Ok(())
    }
}

impl Tree<'_> {
    fn note(&mut self, outcome: PyResult<()>) {
        if let Err(error) = outcome {
            self.value_so_far.problem.get_or_insert(error);
        }
    }

    fn put(&mut self, value: Py<PyAny>) {
        let outcome = self.value_so_far.place(self.py, value, false);
        self.note(outcome);
    }

    fn number(&self, written: &str) -> PyResult<Py<PyAny>> {
        if written.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            let number: f64 = written.parse().unwrap_or(f64::NAN);
            return Ok(number.into_pyobject(self.py)?.into_any().unbind());
        }
        if let Ok(number) = written.parse::<i64>() {
            return Ok(number.into_pyobject(self.py)?.into_any().unbind());
        }
        // Python refuses numbers with thousands of digits.
        let class = self.py.get_type::<pyo3::types::PyInt>();
        class
            .call1((written,))
            .map(Bound::unbind)
            .map_err(|_| failure(self.py, "number-too-long", written.len()))
    }
}

impl Build for Tree<'_> {
    fn open(&mut self, is_object: bool) {
        let (value, container) = if is_object {
            let dict = PyDict::new(self.py).unbind();
            (dict.clone_ref(self.py).into_any(), Container::Object(dict, None))
        } else {
            let list = PyList::empty(self.py).unbind();
            (list.clone_ref(self.py).into_any(), Container::Array(list, false))
        };
        self.put(value);
        self.value_so_far.open.push(container);
    }

    fn close(&mut self) {
        self.value_so_far.open.pop();
    }

    fn key(&mut self, key: &str) {
        if let Some(Container::Object(_, slot)) = self.value_so_far.open.last_mut() {
            *slot = Some(PyString::new(self.py, key).unbind());
        }
    }

    fn scalar(&mut self, scalar: Scalar<'_>) {
        let value = match scalar {
            Scalar::Null => Ok(self.py.None()),
            Scalar::Truth(truth) => {
                Ok(pyo3::types::PyBool::new(self.py, truth).to_owned().into_any().unbind())
            }
            Scalar::Number(written) => self.number(written),
        };
        match value {
            Ok(value) => self.put(value),
            Err(error) => self.note(Err(error)),
        }
    }

    fn begin_text(&mut self) {
        self.value_so_far.text = Some(String::new());
        self.value_so_far.shown = 0;
    }

    fn text(&mut self, part: &str) {
        if let Some(text) = &mut self.value_so_far.text {
            text.push_str(part);
        }
    }

    fn end_text(&mut self) {
        if let Some(text) = self.value_so_far.text.take() {
            self.put(PyString::new(self.py, &text).into_any().unbind());
        }
    }
}
