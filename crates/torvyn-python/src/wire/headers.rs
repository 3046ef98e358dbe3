//! Headers of HTTP, from Python's texts and to them.

use std::borrow::Cow;
use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use torvyn_wire::http::HeaderMap;
use torvyn_wire::http::header::{HeaderName, HeaderValue};

/// `encode` turns the text of a value into its bytes.
pub fn header_map(pairs: &[(String, String)], encode: impl Fn(&str) -> Cow<'_, [u8]>) -> PyResult<HeaderMap> {
    let mut map = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?;
        map.append(name, HeaderValue::from_bytes(&encode(value)).map_err(invalid)?);
    }
    Ok(map)
}

/// One byte per character, as HTTP has it.
pub fn to_latin1(text: &str) -> Cow<'_, [u8]> {
    text.chars().map(|character| u8::try_from(character as u32).unwrap_or(b'?')).collect()
}

pub fn from_latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

pub fn invalid(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
