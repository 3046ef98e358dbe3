//! The machines of `torvyn-text` as Python classes: text goes in, sentences and characters come out.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use torvyn_text::{Language, Mode, Options, Splitter};

/// Text to sentences, as it streams.
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

    /// The codes of the languages that a splitter can be given.
    #[staticmethod]
    fn languages() -> Vec<&'static str> {
        Language::codes()
    }

    /// Feeds a piece of text (in simple mode: one token); answers with the sentences it completes.
    fn put(&mut self, text: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        self.splitter.put(text, |sentence| sentences.push(sentence.to_owned()));
        sentences
    }

    /// The input is over: the rest, if there is one. The splitter is as new.
    fn finish(&mut self) -> Option<String> {
        self.splitter.finish()
    }

    /// No input for a while: what is held leaves, and the text goes on afterwards.
    fn flush_idle(&mut self) -> Option<String> {
        self.splitter.flush_idle()
    }

    /// Forgets everything.
    fn clear(&mut self) {
        self.splitter.clear();
    }

    /// Bytes that wait here.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.splitter.held_bytes()
    }
}

/// `auto` leaves the language to be detected.
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

/// Bytes to text, as they stream.
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

    /// Every character that these bytes complete; a bad byte is U+FFFD.
    fn put(&mut self, data: &[u8]) -> String {
        let mut text = String::with_capacity(data.len());
        self.decoder.put(data, &mut text);
        text
    }

    /// The input is over: U+FFFD if a character never became whole. The decoder is as new.
    fn finish(&mut self) -> String {
        let mut text = String::new();
        self.decoder.finish(&mut text);
        text
    }

    /// Forgets what waits.
    fn clear(&mut self) {
        self.decoder.clear();
    }

    /// Bytes that wait for the rest of their character: 0 to 3.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.decoder.held_bytes()
    }
}
