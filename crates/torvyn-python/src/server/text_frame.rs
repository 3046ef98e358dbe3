//! How new text becomes a frame of an answer, on every transport.

use std::sync::Arc;

use pyo3::prelude::*;
use torvyn_frames::proto;

use crate::wire::frames::{FrameEncoder, Line};
use crate::wire::messages::MessageEncoder;

pub enum TextFrame {
    /// An event, a line, or a message in JSON.
    Line(Arc<Line>),
    /// The same, one bracket of which is replaced by how the frames of its stream begin.
    Tagged(Arc<Line>, Box<[u8]>),
    /// A message of gRPC.
    Message(Py<MessageEncoder>),
    /// The same inside of another message, after these bytes and its length.
    Nested(Py<MessageEncoder>, Box<[u8]>),
}

impl TextFrame {
    pub fn new(encoder: &Bound<'_, PyAny>, opening: Option<&[u8]>) -> PyResult<Self> {
        if let Ok(encoder) = encoder.cast::<MessageEncoder>() {
            let encoder = encoder.clone().unbind();
            return Ok(match opening {
                Some(opening) => Self::Nested(encoder, opening.into()),
                None => Self::Message(encoder),
            });
        }
        let line = encoder.cast::<FrameEncoder>()?.get().line.clone();
        Ok(match opening {
            Some(opening) => Self::Tagged(line, opening.into()),
            None => Self::Line(line),
        })
    }

    /// For text of the first choice in which no pair of surrogates is split.
    pub fn write(&self, text: &str, out: &mut Vec<u8>) {
        match self {
            Self::Line(line) => line.write_text(text, out),
            Self::Tagged(line, opening) => write_tagged(opening, out, |out| line.write_text(text, out)),
            Self::Message(encoder) => encoder.get().write_text(text, out),
            Self::Nested(encoder, opening) => {
                let mut message = Vec::with_capacity(text.len() + 32);
                encoder.get().write_text(text, &mut message);
                out.extend_from_slice(opening);
                proto::varint(message.len() as u64, out);
                out.extend_from_slice(&message);
            }
        }
    }
}

/// Writes a frame that begins with `opening`, which ends with a comma, instead of a bracket.
pub fn write_tagged(opening: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&opening[..opening.len().saturating_sub(1)]);
    let bracket = out.len();
    write(out);
    out[bracket] = b',';
}
