//! The frame encoder for Python, and for the stage that turns elements into frames.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use torvyn_frames::{Call, Dialect, Encoder, Failure, Finish, Framing, Identity, Kind, Usage};

use super::halves::Halves;

/// Shared by the stages of all choices of an answer.
pub struct Line {
    pub encoder: Encoder,
    pub halves: Halves,
}

/// Encodes frames.
#[pyclass(frozen, subclass, module = "torvyn._native")]
pub struct FrameEncoder {
    pub line: Arc<Line>,
}

type FinishTuple = (u32, String, Option<String>, Option<String>, Option<String>);
/// Prompt, completion, cached and reasoning tokens.
type UsageTuple = (u64, u64, u64, u64);

pub fn kind_of(name: &str) -> PyResult<Kind> {
    match name {
        "text" => Ok(Kind::Text),
        "reasoning" => Ok(Kind::Reasoning),
        _ => Err(PyValueError::new_err(format!("kind is `text` or `reasoning`, not {name:?}"))),
    }
}

#[pymethods]
impl FrameEncoder {
    // Keyword arguments of one Python call; a struct would only give them a second name.
    #[allow(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (dialect, framing, *, id, flow, created, epoch, choices=1, include_usage=false, stream_id=None))]
    fn new(
        dialect: &str,
        framing: &str,
        id: String,
        flow: String,
        created: u64,
        epoch: String,
        choices: u32,
        include_usage: bool,
        stream_id: Option<String>,
    ) -> PyResult<Self> {
        let invalid_value = |what: String| Err(PyValueError::new_err(what));
        let dialect = match dialect {
            "torvyn" => Dialect::Torvyn,
            "openai-chat" => Dialect::Chat,
            "openai-completions" => Dialect::Completions,
            _ => return invalid_value(format!("unknown dialect {dialect:?}")),
        };
        let framing = match framing {
            "sse" => Framing::Events,
            "lines" => Framing::Lines,
            "json" if dialect == Dialect::Torvyn => Framing::Bare,
            "json" => {
                return invalid_value(
                    "`json` framing does not support OpenAI dialects, where a frame may be several messages"
                        .to_owned(),
                );
            }
            _ => return invalid_value(format!("unknown framing {framing:?}")),
        };
        if epoch.is_empty() || !epoch.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return invalid_value(format!("an epoch is ASCII letters and digits, not {epoch:?}"));
        }
        let halves = Halves::new(choices)?;
        let identity = Identity { id, flow, created, epoch, stream_id, include_usage, choices };
        let encoder = Encoder::new(dialect, framing, identity);
        Ok(Self { line: Arc::new(Line { encoder, halves }) })
    }

    /// The number of the last frame; deltas count from 1.
    #[getter]
    fn seq(&self) -> u64 {
        self.line.encoder.last()
    }

    /// The number of choices.
    #[getter]
    fn choices(&self) -> u32 {
        self.line.encoder.choices()
    }

    fn start<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        written(py, |out| self.line.encoder.start(out))
    }

    /// New text of a choice. `logprobs` is JSON in the dialect's format. Without `seq` the frame gets the next number.
    #[pyo3(signature = (text, index=0, kind="text", logprobs=None, seq=None))]
    fn text<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        index: u32,
        kind: &str,
        logprobs: Option<&str>,
        seq: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(written_or_empty(py, self.line.text_writer(text, index, kind, logprobs, seq)?))
    }

    /// A piece of a tool call: its index, id, name and arguments.
    #[pyo3(signature = (call, index=0, logprobs=None, seq=None))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        call: (u32, Option<String>, Option<String>, String),
        index: u32,
        logprobs: Option<&str>,
        seq: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.line.halves.check(index)?;
        let encoder = &self.line.encoder;
        let seq = encoder.number(seq);
        let (place, id, name, arguments) = call;
        let call = Call { index: place, id: id.as_deref(), name: name.as_deref(), arguments: &arguments };
        Ok(written(py, |out| encoder.call(seq, index, call, logprobs, out)))
    }

    /// `data` is JSON.
    #[pyo3(signature = (data, seq=None))]
    fn meta<'py>(&self, py: Python<'py>, data: &str, seq: Option<u64>) -> Bound<'py, PyBytes> {
        let seq = self.line.encoder.number(seq);
        written(py, |out| self.line.encoder.meta(seq, data, out))
    }

    #[pyo3(signature = (code, message, retryable=false, seq=None))]
    fn error<'py>(
        &self,
        py: Python<'py>,
        code: &str,
        message: &str,
        retryable: bool,
        seq: Option<u64>,
    ) -> Bound<'py, PyBytes> {
        let seq = self.line.encoder.number(seq);
        written(py, |out| self.line.encoder.error(seq, Failure { code, message, retryable }, out))
    }

    /// The chunk with the usage, for an OpenAI client that requested it; nothing for others.
    fn usage<'py>(&self, py: Python<'py>, usage: UsageTuple) -> Bound<'py, PyBytes> {
        written(py, |out| {
            self.line.release(out);
            self.line.encoder.usage(usage_of(usage), out);
        })
    }

    /// `finish`: index, reason, matched stop, the node that stopped and its side; `usage`: prompt, completion, cached
    /// and reasoning tokens; `timing` is JSON.
    #[pyo3(signature = (finish, usage=None, timing=None, seq=None))]
    fn end<'py>(
        &self,
        py: Python<'py>,
        finish: Vec<FinishTuple>,
        usage: Option<UsageTuple>,
        timing: Option<&str>,
        seq: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        for one in &finish {
            self.line.halves.check(one.0)?;
        }
        let finish: Vec<Finish<'_>> = finish.iter().map(finish_of).collect();
        let usage = usage.map(usage_of);
        Ok(written(py, |out| {
            self.line.release(out);
            let seq = self.line.encoder.number(seq);
            self.line.encoder.end(seq, &finish, usage, timing, out);
        }))
    }

    fn heartbeat<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        written(py, |out| self.line.encoder.heartbeat(out))
    }
}

fn usage_of((prompt, completion, cached, reasoning): UsageTuple) -> Usage {
    Usage { prompt, completion, cached, reasoning }
}

fn finish_of(tuple: &FinishTuple) -> Finish<'_> {
    Finish {
        index: tuple.0,
        reason: &tuple.1,
        matched_stop: tuple.2.as_deref(),
        stopped_by: tuple.3.as_deref(),
        side: tuple.4.as_deref(),
    }
}

fn written<'py>(py: Python<'py>, write: impl FnOnce(&mut Vec<u8>)) -> Bound<'py, PyBytes> {
    let mut out = Vec::with_capacity(320);
    write(&mut out);
    PyBytes::new(py, &out)
}

/// Empty if there is nothing to write.
pub fn written_or_empty<'py>(
    py: Python<'py>,
    write: Option<impl FnOnce(&mut Vec<u8>)>,
) -> Bound<'py, PyBytes> {
    write.map_or_else(|| PyBytes::new(py, b""), |write| written(py, write))
}

impl Line {
    /// Writes a frame with new text, when it is called; None if there is nothing to send.
    #[inline]
    pub fn text_writer<'a>(
        &'a self,
        text: &'a Bound<'_, PyString>,
        index: u32,
        kind: &str,
        logprobs: Option<&'a str>,
        seq: Option<u64>,
    ) -> PyResult<Option<impl FnOnce(&mut Vec<u8>) + 'a>> {
        let kind = kind_of(kind)?;
        let text = self.halves.joined(text, index)?;
        Ok(text.map(|text| {
            move |out: &mut Vec<u8>| {
                self.encoder.text(self.encoder.number(seq), index, kind, &text, logprobs, out);
            }
        }))
    }

    /// The same for text of the first choice in which no pair is split.
    pub fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        self.encoder.text(self.encoder.number(None), 0, Kind::Text, text, None, out);
    }

    /// The answer ends: single halves become U+FFFD.
    fn release(&self, out: &mut Vec<u8>) {
        for index in self.halves.release() {
            let seq = self.encoder.number(None);
            self.encoder.text(seq, index, Kind::Text, "\u{fffd}", None, out);
        }
    }
}
