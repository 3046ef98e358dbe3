//! One request and its answer, for Python.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyConnectionResetError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyString};
use torvyn_wire::bytes::Bytes;
use torvyn_wire::http::{Response, StatusCode, Version, response};
use torvyn_wire::{BodyError, End, Exchange, Framing, Message};

use super::Driven;
use super::text_frame::{TextFrame, write_tagged};
use crate::lock::lock;
use crate::wire::frames::FrameEncoder;
use crate::wire::headers::{from_latin1, header_map, invalid, to_latin1};
use crate::wire::messages::MessageEncoder;

#[pyclass(frozen, module = "torvyn._native")]
pub struct WireExchange {
    exchange: Box<Exchange>,
    /// Until it is taken.
    body: Mutex<Bytes>,
    driven: Arc<Driven>,
}

impl WireExchange {
    pub fn new(mut exchange: Box<Exchange>, driven: Arc<Driven>) -> Self {
        let body = exchange.body.as_mut().map(std::mem::take).unwrap_or_default();
        Self { exchange, body: Mutex::new(body), driven }
    }

    /// Appends a frame with new text; false: the client has left, or it must be waited for.
    pub fn append_frame(&self, frame: &TextFrame, text: &str) -> bool {
        let append = || self.exchange.append_with(|out| frame.write(text, out));
        self.driven.after(append) && !self.exchange.answer.is_full()
    }

    fn appended(&self, append: impl FnOnce() -> bool) -> PyResult<bool> {
        if !self.driven.after(append) {
            return Err(PyConnectionResetError::new_err("the client has left"));
        }
        Ok(!self.exchange.answer.must_wait())
    }
}

#[pymethods]
impl WireExchange {
    #[getter]
    fn id(&self) -> u64 {
        self.exchange.answer.id
    }

    #[getter]
    fn method(&self) -> &str {
        self.exchange.head.method.as_str()
    }

    /// As the client has sent it.
    #[getter]
    fn path(&self) -> &str {
        self.exchange.head.uri.path()
    }

    #[getter]
    fn query(&self) -> &str {
        self.exchange.head.uri.query().unwrap_or("")
    }

    /// The host that the target of the request names, if it names one.
    #[getter]
    fn authority(&self) -> Option<&str> {
        self.exchange.head.uri.authority().map(|authority| authority.as_str())
    }

    /// The address of the client.
    #[getter]
    fn peer(&self) -> String {
        self.exchange.peer.ip().to_string()
    }

    /// By lower-case names. A repeated header is one list.
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        for name in self.exchange.head.headers.keys() {
            let values: Vec<String> = self
                .exchange
                .head
                .headers
                .get_all(name)
                .iter()
                .map(|value| from_latin1(value.as_bytes()))
                .collect();
            headers.set_item(PyString::intern(py, name.as_str()), values.join(", "))?;
        }
        Ok(headers)
    }

    /// How many `Host` headers there are.
    #[getter]
    fn hosts(&self) -> usize {
        self.exchange.head.headers.get_all("host").iter().count()
    }

    /// The body, once: a stream that stays open does not keep it.
    fn take_body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let body = std::mem::take(&mut *lock(&self.body));
        PyBytes::new(py, &body)
    }

    /// Why the body is not there: `too-large`, `slow`, `refused` or `malformed`.
    #[getter]
    fn body_error(&self) -> Option<&'static str> {
        self.exchange.body.as_ref().err().map(|error| match error {
            BodyError::TooLarge => "too-large",
            BodyError::Slow => "slow",
            BodyError::Refused => "refused",
            BodyError::Malformed => "malformed",
            BodyError::Left => "left",
        })
    }

    /// Whether the client asks for a WebSocket.
    #[getter]
    fn is_websocket(&self) -> bool {
        self.exchange.framing == Framing::WebSocket
    }

    /// The next message of the client. None: wait for the event, unless no more come.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(inbox) = &self.exchange.inbox else { return Ok(None) };
        // The connection may read on.
        Ok(match self.driven.after(|| inbox.take()) {
            Some(Message::Text(data)) => Some(PyString::from_bytes(py, &data)?.into_any()),
            Some(Message::Data(data)) => Some(PyBytes::new(py, &data).into_any()),
            None => None,
        })
    }

    /// Why no more messages come, when all were received.
    #[getter]
    fn messages_end(&self) -> Option<&'static str> {
        let end = self.exchange.inbox.as_ref().map_or(Some(End::Complete), |inbox| inbox.ended());
        end.map(|end| match end {
            End::Complete => "complete",
            End::Left => "left",
            End::TooLarge => "too-large",
            End::Malformed => "malformed",
            End::BadText => "bad-text",
            End::Slow => "slow",
        })
    }

    /// The head of an answer that is appended to, and its first parts. They are sent with what is appended next, or by
    /// `release`; until then, `respond` may replace them.
    #[pyo3(signature = (status, headers, parts=Vec::new()))]
    fn hold(&self, status: u16, headers: Vec<(String, String)>, parts: Vec<PyBackedBytes>) -> PyResult<()> {
        self.exchange.hold(head(status, &headers)?, parts.iter().map(|part| &**part));
        Ok(())
    }

    /// Sends what is held.
    fn release(&self) {
        self.driven.after(|| self.exchange.answer.release());
    }

    /// Whether nothing was sent of what `hold` took.
    #[getter]
    fn is_held(&self) -> bool {
        self.exchange.answer.is_held()
    }

    /// Sends a whole answer.
    fn respond(&self, status: u16, headers: Vec<(String, String)>, body: &[u8]) -> PyResult<()> {
        let head = head(status, &headers)?;
        let body = body.to_vec().into();
        self.driven.after(|| self.exchange.answer.respond(head, body));
        Ok(())
    }

    /// False: wait until there is room. Raises `ConnectionResetError` when the client has left. `is_last`: the answer
    /// is complete then, and its end is sent with the data.
    #[pyo3(signature = (data, is_last=false))]
    fn append(&self, data: &[u8], is_last: bool) -> PyResult<bool> {
        self.appended(|| {
            let is_open = self.exchange.append_with(|buffer| buffer.extend_from_slice(data));
            if is_open && is_last {
                self.exchange.answer.finish(None);
            }
            is_open
        })
    }

    /// `append` of a frame with new text, which is encoded where it waits to be sent. `opening` replaces the bracket
    /// with which the frame begins, and ends with a comma.
    #[pyo3(signature = (encoder, text, index, kind, opening=None))]
    fn append_text(
        &self,
        encoder: &FrameEncoder,
        text: &Bound<'_, PyString>,
        index: u32,
        kind: &str,
        opening: Option<&[u8]>,
    ) -> PyResult<bool> {
        let write = encoder.line.text_writer(text, index, kind, None, None)?;
        let Some(write) = write else { return Ok(true) };
        let Some(opening) = opening else { return self.appended(|| self.exchange.append_with(write)) };
        self.appended(|| self.exchange.append_with(|buffer| write_tagged(opening, buffer, write)))
    }

    /// `append` of a message to a WebSocket that is not text.
    fn append_data(&self, data: &[u8]) -> PyResult<bool> {
        self.appended(|| self.exchange.append_data(data))
    }

    /// Closes a WebSocket.
    fn close(&self, code: u16, reason: &str) {
        self.driven.after(|| self.exchange.close(code, reason));
    }

    /// Whether more may be appended; if not, an event tells when.
    #[getter]
    fn has_room(&self) -> bool {
        !self.exchange.answer.must_wait()
    }

    /// `append` of a gRPC message with new text.
    fn append_text_message(
        &self,
        encoder: &MessageEncoder,
        text: &Bound<'_, PyString>,
        index: u32,
        kind: &str,
    ) -> PyResult<bool> {
        let write = encoder.text_writer(text, index, kind, None)?;
        let Some(write) = write else { return Ok(true) };
        self.appended(|| self.exchange.append_with(write))
    }

    /// What is not sent over HTTP/2 after so many seconds is dropped, and the answer broken. An HTTP/1 connection has a
    /// time limit of its own.
    fn abort_after(&self, seconds: f64) {
        if self.exchange.head.version < Version::HTTP_2 {
            return;
        }
        self.exchange.answer.abort_after(Duration::from_secs_f64(seconds));
    }

    /// Whether it is a gRPC call, which carries messages in both directions.
    #[getter]
    fn is_call(&self) -> bool {
        self.exchange.framing == Framing::Grpc
    }

    /// The answer is complete.
    #[pyo3(signature = (trailers=None))]
    fn finish(&self, trailers: Option<Vec<(String, String)>>) -> PyResult<()> {
        let trailers = trailers.map(|pairs| header_map(&pairs, to_latin1)).transpose()?;
        self.driven.after(|| self.exchange.answer.finish(trailers));
        Ok(())
    }

    /// The request was handled: an answer that is not complete is broken.
    fn abort_unless_finished(&self) {
        if let Some(inbox) = &self.exchange.inbox {
            inbox.close();
        }
        if !self.exchange.answer.is_finished() {
            self.driven.after(|| self.exchange.abort());
        }
    }

    /// The request has a valid key: its connection does not count among those of strangers any more.
    fn recognise(&self) {
        self.driven.lock().recognise(&self.exchange);
    }

    /// Seconds since something was appended; None if nothing was.
    #[getter]
    fn idle_s(&self) -> Option<f64> {
        self.exchange.answer.appended_at().map(|at| at.elapsed().as_secs_f64())
    }

    #[getter]
    fn is_left(&self) -> bool {
        self.exchange.answer.is_left()
    }
}

fn head(status: u16, headers: &[(String, String)]) -> PyResult<response::Parts> {
    let status = StatusCode::from_u16(status).map_err(invalid)?;
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.status = status;
    parts.headers = header_map(headers, to_latin1)?;
    Ok(parts)
}
