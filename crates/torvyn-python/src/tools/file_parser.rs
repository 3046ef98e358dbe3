//! Parsers of file formats. They return what a file contains; Python decides what it means.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use torvyn_text::vocabulary::gguf::{self, GgufError};
use torvyn_text::vocabulary::sentencepiece::{Model, ModelError};
use torvyn_tools::toml::{Entry, Error, Node, Value, parse};

use crate::error::NativeError;

type GgufTokens = (String, Vec<Py<PyBytes>>, Vec<i32>, Option<bool>);
type ModelPieces = (Vec<(Py<PyBytes>, u64)>, Py<PyBytes>, bool, bool, bool, bool);

#[pyclass(frozen, module = "torvyn._native")]
pub struct FileParser;

#[pymethods]
impl FileParser {
    /// TOML as `(kind, start, end, value)`, where start and end count the bytes of the UTF-8 text.
    ///
    /// A table's value is a list of `(key, key_start, key_end, node)`, an array's a list of nodes.
    #[staticmethod]
    fn toml<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyTuple>> {
        match parse(text) {
            Ok(root) => node(py, &root),
            Err(error) => Err(toml_error(&error)),
        }
    }

    /// The tokenizer of a GGUF file: model, tokens, types, `add_space_prefix`.
    #[staticmethod]
    fn gguf(py: Python<'_>, path: PathBuf) -> PyResult<GgufTokens> {
        let file = py.detach(|| gguf::read(BufReader::with_capacity(1 << 18, File::open(path)?)));
        let file = file.map_err(gguf_error)?;
        let tokens = file.tokens.iter().map(|token| PyBytes::new(py, token).unbind()).collect();
        Ok((file.model, tokens, file.kinds, file.add_space_prefix))
    }

    /// A SentencePiece model: pieces with types, the unknown piece's surface, `add_dummy_prefix`,
    /// `remove_extra_whitespaces`, `treat_whitespace_as_suffix`, and whether it denormalizes.
    #[staticmethod]
    fn sentencepiece(py: Python<'_>, data: &[u8]) -> PyResult<ModelPieces> {
        let model = Model::parse(data).map_err(|error| {
            let kind = if matches!(error, ModelError::TooMany { .. }) { "too-large" } else { "invalid" };
            NativeError::new_err((kind, error.to_string()))
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
}

fn toml_error(error: &Error) -> PyErr {
    let (kind, message, span) = match error {
        Error::Syntax { message, span } => ("syntax", message.as_str(), span),
        Error::TooDeep { span } => ("too-deep", "", span),
    };
    NativeError::new_err((kind, message.to_owned(), span.start, span.end))
}

fn gguf_error(error: GgufError) -> PyErr {
    let kind = match error {
        GgufError::Io(error) => return error.into(),
        GgufError::TooLarge { .. } => "too-large",
        GgufError::Version { .. } => "unsupported",
        _ => "invalid",
    };
    NativeError::new_err((kind, error.to_string()))
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
    let items: PyResult<Vec<_>> = nodes.iter().map(|child| node(py, child)).collect();
    PyList::new(py, items?)
}

fn table<'py>(py: Python<'py>, entries: &[Entry]) -> PyResult<Bound<'py, PyList>> {
    let items: PyResult<Vec<_>> = entries
        .iter()
        .map(|entry| {
            let item = node(py, &entry.node)?;
            (&entry.key, entry.span.start, entry.span.end, item).into_pyobject(py)
        })
        .collect();
    PyList::new(py, items?)
}
