//! The part of the encoder of gRPC's messages that runs once per token.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use torvyn_frames::{Kind, Numbers, proto};

use super::frames::{kind_of, written_or_empty};
use super::halves::Halves;

/// Numbers the frames of an answer, and encodes those with new text as messages.
#[pyclass(frozen, subclass, module = "torvyn._native")]
pub struct MessageEncoder {
    halves: Halves,
    numbers: Numbers,
}

#[pymethods]
impl MessageEncoder {
    #[new]
    fn new(choices: u32) -> PyResult<Self> {
        Ok(Self { halves: Halves::new(choices)?, numbers: Numbers::default() })
    }

    /// The number of the last frame; deltas count from 1.
    #[getter]
    fn seq(&self) -> u64 {
        self.numbers.last()
    }

    #[getter]
    fn choices(&self) -> u32 {
        self.halves.choices()
    }

    /// The next number, or the given one; counting continues from there.
    #[pyo3(signature = (seq=None))]
    fn number(&self, seq: Option<u64>) -> u64 {
        self.numbers.number(seq)
    }

    /// A frame with new text of a choice; empty if the text is half a surrogate pair, which waits for the other half.
    #[pyo3(signature = (text, index=0, kind="text", seq=None))]
    fn encode_text<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        index: u32,
        kind: &str,
        seq: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(written_or_empty(py, self.text_writer(text, index, kind, seq)?))
    }

    /// The text as it can be encoded: with the half that waits in front, and without one at its end.
    fn join(&self, text: &Bound<'_, PyString>, index: u32) -> PyResult<String> {
        Ok(self.halves.joined(text, index)?.unwrap_or_default().into_owned())
    }

    /// The answer ends: the choices whose half of a pair is alone.
    fn release(&self) -> Vec<u32> {
        self.halves.release().collect()
    }
}

impl MessageEncoder {
    /// Writes a frame with new text, when it is called; None if there is nothing to send.
    #[inline]
    pub fn text_writer<'a>(
        &'a self,
        text: &'a Bound<'_, PyString>,
        index: u32,
        kind: &str,
        seq: Option<u64>,
    ) -> PyResult<Option<impl FnOnce(&mut Vec<u8>) + 'a>> {
        let kind = kind_of(kind)?;
        let text = self.halves.joined(text, index)?;
        Ok(text
            .map(move |text| move |out: &mut Vec<u8>| proto::text(self.number(seq), index, kind, &text, out)))
    }

    /// The same for text of the first choice in which no pair is split.
    pub fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        proto::text(self.number(None), 0, Kind::Text, text, out);
    }
}
