//! The table of a tokenizer's tokens, shared by its streamers.

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use torvyn_text::vocabulary::{Kind, Start, Table};

/// Maps token ids to bytes; all streamers of a tokenizer share it.
#[pyclass(subclass, frozen, module = "torvyn._native")]
pub struct TokenTable(pub Arc<torvyn_text::Vocabulary>);

#[pymethods]
impl TokenTable {
    #[new]
    #[pyo3(signature = (tokens, special=Vec::new(), *, first=None, first_until="token", strip=0, replace_each_byte=false, special_separates=false))]
    fn new(
        tokens: &Bound<'_, PyList>,
        special: Vec<usize>,
        first: Option<&Bound<'_, PyList>>,
        first_until: &str,
        strip: u32,
        replace_each_byte: bool,
        special_separates: bool,
    ) -> PyResult<Self> {
        let entries: Vec<Option<Bound<'_, PyBytes>>> = tokens.extract()?;
        let slices = entries.iter().map(|entry| entry.as_ref().map(|bytes| bytes.as_bytes()));
        let mut vocabulary = torvyn_text::Vocabulary::new(slices).ok_or_else(too_large)?;
        for id in special {
            if !vocabulary.mark_special(id) {
                return Err(PyValueError::new_err(format!("special id {id} is not a token")));
            }
        }
        if let Some(first) = first {
            let until = start(first_until)?;
            if !vocabulary.start_with(table(first)?, until) {
                return Err(PyValueError::new_err("`first` and `tokens` differ in length"));
            }
        }
        vocabulary.strip = strip;
        vocabulary.replace_each_byte = replace_each_byte;
        vocabulary.special_separates = special_separates;
        Ok(Self(Arc::new(vocabulary)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The bytes of a token; None for an unused id.
    fn __getitem__<'py>(&self, py: Python<'py>, id: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if id >= self.0.len() {
            return Err(PyIndexError::new_err(id));
        }
        Ok(self.0.index(id as i64).map(|index| PyBytes::new(py, self.0.bytes(index))))
    }

    /// Whether a token controls the model instead of being text.
    fn is_special(&self, id: usize) -> bool {
        self.0.kind(id) == Kind::Special
    }
}

fn start(until: &str) -> PyResult<Start> {
    match until {
        "token" => Ok(Start::Token),
        "taken" => Ok(Start::Taken),
        "text" => Ok(Start::Text),
        _ => Err(PyValueError::new_err(format!("first_until is `token`, `taken` or `text`, not {until:?}"))),
    }
}

fn table(entries: &Bound<'_, PyList>) -> PyResult<Table> {
    let mut table = Table::default();
    for entry in entries {
        let bytes: Option<Bound<'_, PyBytes>> = entry.extract()?;
        if !table.push(bytes.as_ref().map(|bytes| bytes.as_bytes()).unwrap_or_default()) {
            return Err(too_large());
        }
    }
    Ok(table)
}

fn too_large() -> PyErr {
    PyOverflowError::new_err("the tokens are more than 4 GiB")
}
