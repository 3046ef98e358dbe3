//! The last stage of a flow that serves answers: turns an element into the bytes of its frame.
//!
//! Text without attributes is encoded here; an element with attributes goes through `torvyn.protocol`, which knows what
//! they mean.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use torvyn_frames::{Framing, Kind};
use torvyn_stream::{
    Call, ContentType, Delivery, Element, Emission, ErrorKind, Outbox, Payload, Stage, StageError, Step,
};

use crate::element::convert::{attributes_of, component_error};
use crate::symbols::Symbols;
use crate::wire::frames::{FrameEncoder, Line};

pub struct FrameStage {
    line: Arc<Line>,
    encoder: Py<FrameEncoder>,
    index: u32,
    content_type: ContentType,
    buffer: Vec<u8>,
}

impl FrameStage {
    /// Created from the parameters `encoder` and `index`.
    pub fn new(encoder: &Bound<'_, FrameEncoder>, index: u32) -> PyResult<Self> {
        let line = encoder.get().line.clone();
        line.halves.check(index)?;
        let content_type = match line.encoder.framing {
            Framing::Events => ContentType::EVENT_STREAM,
            Framing::Lines => ContentType::NDJSON,
            Framing::Bare => ContentType::JSON,
        };
        Ok(Self { line, encoder: encoder.clone().unbind(), index, content_type, buffer: Vec::new() })
    }

    /// The frame of an element with attributes, if it has any.
    fn with_attributes(&mut self, element: &Element, text: &str) -> Result<bool, StageError> {
        let Some(companion) = &element.companion else { return Ok(false) };
        Python::attach(|py| {
            let symbols = Symbols::get(py).map_err(|error| component_error(py, error))?;
            let Some(attributes) = attributes_of(py, symbols, companion) else { return Ok(false) };
            let bytes =
                self.full(py, text, attributes.bind(py)).map_err(|error| component_error(py, error))?;
            self.buffer.extend_from_slice(bytes.as_bytes());
            Ok(true)
        })
    }

    fn full<'py>(
        &self,
        py: Python<'py>,
        text: &str,
        attributes: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let encode = py.import("torvyn.protocol.frame_stage")?.getattr("frame_of")?;
        let made = encode.call1((self.encoder.bind(py), self.index, text, attributes))?;
        Ok(made.cast_into::<PyBytes>()?)
    }
}

impl Stage for FrameStage {
    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let refuse = |why: &str| StageError::new(ErrorKind::InvalidInput, why);
        let bytes = element.read(call.ledger).ok_or_else(|| refuse("the payload cannot be read"))?;
        let text = std::str::from_utf8(bytes).map_err(|_| refuse("the payload is not UTF-8"))?;
        self.buffer.clear();
        if element.companion.is_none() || !self.with_attributes(element, text)? {
            let encoder = &self.line.encoder;
            encoder.text(encoder.number(None), self.index, Kind::Text, text, None, &mut self.buffer);
        }
        if !self.buffer.is_empty() {
            out.emit(Emission {
                payload: Payload::from_slice(&self.buffer),
                len: self.buffer.len() as u32,
                content_type: self.content_type,
                companion: None,
                delivery: Delivery::default(),
            });
        }
        Ok(Step::Done)
    }
}
