//! The sentence splitter and the UTF-8 decoder of `torvyn-text` as Python classes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use torvyn_text::{Language, Mode, Options, Splitter};

/// Splits streaming text into sentences.
#[pyclass(module = "torvyn._native")]
pub struct SentenceSplitter {
    splitter: Splitter,
}

#[pymethods]
impl SentenceSplitter {
    #[new]
    #[pyo3(signature = (mode="normal", first_min=0, min=0, max=0, language="auto"))]
    fn new(mode: &str, first_min: usize, min: usize, max: usize, language: &str) -> PyResult<Self> {
        let mode = match mode {
            "simple" => Mode::Simple,
            "normal" => Mode::Normal,
            _ => {
                let message = format!("mode is `simple` or `normal`, not {mode:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let options = Options { mode, first_min, min, max, language: parse_language(language)? };
        Ok(Self { splitter: Splitter::new(options) })
    }

    /// The language codes that a splitter accepts.
    #[staticmethod]
    fn languages() -> Vec<&'static str> {
        Language::codes()
    }

    /// Takes a piece of text (in simple mode: one token); returns the sentences it completes.
    fn put(&mut self, text: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        self.splitter.put(text, |sentence| sentences.push(sentence.to_owned()));
        sentences
    }

    /// Ends the input: returns the rest, if any, and resets the splitter.
    fn finish(&mut self) -> Option<String> {
        self.splitter.finish()
    }

    /// Returns the buffered text when no input has come for a while; the text continues.
    fn flush_idle(&mut self) -> Option<String> {
        self.splitter.flush_idle()
    }

    /// Resets the splitter.
    fn clear(&mut self) {
        self.splitter.clear();
    }

    /// Bytes in the buffer.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.splitter.held_bytes()
    }
}

/// `auto` detects the language.
pub fn parse_language(code: &str) -> PyResult<Option<Language>> {
    if code == "auto" {
        return Ok(None);
    }
    let language = Language::from_code(code);
    language.map(Some).ok_or_else(|| {
        let message = format!("language is `auto` or one of {}, not {code:?}", Language::codes().join(", "));
        PyValueError::new_err(message)
    })
}

/// Decodes streaming UTF-8.
#[pyclass(module = "torvyn._native")]
pub struct Utf8Decoder {
    decoder: torvyn_text::Utf8Decoder,
}

#[pymethods]
impl Utf8Decoder {
    #[new]
    fn new() -> Self {
        Self { decoder: torvyn_text::Utf8Decoder::new() }
    }

    /// The characters that these bytes complete; an invalid byte becomes U+FFFD.
    fn put(&mut self, data: &[u8]) -> String {
        let mut text = String::with_capacity(data.len());
        self.decoder.put(data, &mut text);
        text
    }

    /// Ends the input: returns U+FFFD for an incomplete character and resets the decoder.
    fn finish(&mut self) -> String {
        let mut text = String::new();
        self.decoder.finish(&mut text);
        text
    }

    /// Resets the decoder.
    fn clear(&mut self) {
        self.decoder.clear();
    }

    /// Bytes of an incomplete character: 0 to 3.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.decoder.held_bytes()
    }
}
