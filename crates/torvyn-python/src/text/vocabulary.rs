//! Vocabularies at the border: the table that streamers share, and the binary files that tokens are read from.
//!
//! The readers hand out what a file says; what that means for a text is decided in Python, once per tokenizer.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::create_exception;
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use torvyn_text::vocabulary::gguf::{self, GgufError};
use torvyn_text::vocabulary::sentencepiece::{Model, ModelError};
use torvyn_text::vocabulary::{Kind, Start, Table};

create_exception!(torvyn._native, VocabularyFault, PyValueError);

/// Token ids to bytes, shared by all streamers of a tokenizer.
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
                return Err(PyValueError::new_err(format!("special id {id} is no token")));
            }
        }
        if let Some(first) = first {
            let until = start(first_until)?;
            if !vocabulary.start_with(table(first)?, until) {
                return Err(PyValueError::new_err("`first` has another length than `tokens`"));
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

    /// The bytes of a token; None for an id between others that stands for nothing.
    fn __getitem__<'py>(&self, py: Python<'py>, id: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if id >= self.0.len() {
            return Err(PyIndexError::new_err(id));
        }
        Ok(self.0.index(id as i64).map(|index| PyBytes::new(py, self.0.bytes(index))))
    }

    /// Whether a token is a sign of the model rather than text.
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

type GgufTokens = (String, Vec<Py<PyBytes>>, Vec<i32>, Option<bool>);

/// The tokenizer of a GGUF file: model, tokens, types, `add_space_prefix`.
#[pyfunction]
pub fn read_gguf(py: Python<'_>, path: PathBuf) -> PyResult<GgufTokens> {
    let found = py.detach(|| gguf::read(BufReader::with_capacity(1 << 18, File::open(path)?)));
    let found = found.map_err(gguf_fault)?;
    let tokens = found.tokens.iter().map(|token| PyBytes::new(py, token).unbind()).collect();
    Ok((found.model, tokens, found.kinds, found.add_space_prefix))
}

fn gguf_fault(error: GgufError) -> PyErr {
    let kind = match &error {
        GgufError::Io(_) => None,
        GgufError::TooLarge { .. } => Some("too-large"),
        GgufError::Version { .. } => Some("unsupported"),
        _ => Some("invalid"),
    };
    match (kind, error) {
        (None, GgufError::Io(error)) => error.into(),
        (kind, error) => VocabularyFault::new_err((kind.unwrap_or("invalid"), error.to_string())),
    }
}

type ModelPieces = (Vec<(Py<PyBytes>, u64)>, Py<PyBytes>, bool, bool, bool, bool);

/// A SentencePiece model: pieces with types, the unknown piece's surface, `add_dummy_prefix`,
/// `remove_extra_whitespaces`, `treat_whitespace_as_suffix`, and whether it denormalizes.
#[pyfunction]
pub fn read_sentencepiece(py: Python<'_>, data: &[u8]) -> PyResult<ModelPieces> {
    let model = Model::parse(data).map_err(|error| {
        let kind = if matches!(error, ModelError::TooMany { .. }) { "too-large" } else { "invalid" };
        VocabularyFault::new_err((kind, error.to_string()))
    })?;
    let pieces = model.pieces.iter().map(|piece| (PyBytes::new(py, piece.text).unbind(), piece.kind));
    Ok((
        pieces.collect(),
        PyBytes::new(py, model.unknown_surface).unbind(),
        model.add_dummy_prefix,
        model.remove_extra_whitespaces,
        model.treat_whitespace_as_suffix,
        model.denormalizes,
    ))
}
