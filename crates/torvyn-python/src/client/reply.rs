//! The response to a request, while it arrives.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use torvyn_wire::bytes::Bytes;
use torvyn_wire::http::StatusCode;
use torvyn_wire::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use torvyn_wire::http::response::Parts;
use torvyn_wire::{ClientCall, ClientError, Receiver};

use super::DrivenClient;
use super::direct::{Armed, DirectText};
use crate::flow::NativeFlow;
use crate::lock::lock;
use crate::wire::events::ChunkParser;
use crate::wire::headers::from_latin1;

/// What may wait to be read before the connection waits, too.
const MOST_WAITING_BYTES: usize = 8 * 1024;

#[derive(Default)]
struct State {
    head: Option<Parts>,
    /// The head announces an event stream that needs no unpacking.
    is_stream: bool,
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    end: Option<Result<(), ClientError>>,
    /// The future of whoever waits for more.
    future: Option<Py<PyAny>>,
    is_woken: bool,
    armed: Option<Armed>,
    /// When the direct path last took text.
    direct_at: Option<Instant>,
    /// Parts that the direct path has left to Python.
    parts: Option<Py<PyList>>,
}

impl State {
    /// Whether what arrives takes the direct path.
    fn is_direct(&self) -> bool {
        self.is_stream && self.armed.as_ref().is_some_and(|armed| !armed.direct.get().is_closed())
    }

    fn has_news(&self, knows_head: bool) -> bool {
        self.end.is_some()
            || (!self.is_direct() && !self.waiting.is_empty())
            || self.parts.is_some()
            || (!knows_head && self.head.is_some())
    }
}

pub struct Reply {
    state: Mutex<State>,
    woken: Arc<Mutex<VecDeque<Arc<Reply>>>>,
    call: OnceLock<Arc<ClientCall>>,
    this: Weak<Self>,
}

impl Reply {
    pub fn new(woken: Arc<Mutex<VecDeque<Arc<Reply>>>>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            state: Mutex::default(),
            woken,
            call: OnceLock::new(),
            this: this.clone(),
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        if !std::mem::replace(&mut state.is_woken, true)
            && let Some(this) = self.this.upgrade()
        {
            lock(&self.woken).push_back(this);
        }
    }

    /// What has arrived, and the call if its connection waits for room.
    fn take_waiting(&self, state: &mut State) -> (Vec<Bytes>, Option<Arc<ClientCall>>) {
        let was_full = std::mem::take(&mut state.waiting_bytes) >= MOST_WAITING_BYTES;
        let call = self.call.get().filter(|_| was_full).cloned();
        (std::mem::take(&mut state.waiting), call)
    }

    /// After a turn: takes the direct path as far as it goes. Returns the future of whoever waits if Python must go on.
    pub fn advance(&self, py: Python<'_>, driven: &DrivenClient) -> PyResult<Option<Py<PyAny>>> {
        {
            let mut state = lock(&self.state);
            state.is_woken = false;
            if !state.is_direct() {
                return Ok(state.future.take());
            }
        }
        self.go_directly(py, driven)?;
        let mut state = lock(&self.state);
        // With nothing but a head, Python would only wait again.
        Ok(if state.parts.is_some() || state.end.is_some() { state.future.take() } else { None })
    }

    /// Gives what has arrived to the direct path, if that is armed. It stays armed unless it leaves parts to Python.
    fn go_directly(&self, py: Python<'_>, driven: &DrivenClient) -> PyResult<()> {
        let (armed, data, call) = {
            let mut state = lock(&self.state);
            if !state.is_direct() || state.waiting.is_empty() || state.parts.is_some() {
                return Ok(());
            }
            let (data, call) = self.take_waiting(&mut state);
            (state.armed.take(), data, call)
        };
        if let Some(call) = call {
            driven.after(|_| call.resume());
        }
        let Some(armed) = armed else { return Ok(()) };
        let (has_text, parts) = armed.advance(py, &data)?;
        let mut state = lock(&self.state);
        if has_text {
            state.direct_at = Some(Instant::now());
        }
        match parts {
            Some(parts) => state.parts = Some(parts.unbind()),
            None => state.armed = Some(armed),
        }
        Ok(())
    }
}

fn is_stream(head: &Parts) -> bool {
    let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    head.status == StatusCode::OK
        && kind.eq_ignore_ascii_case("text/event-stream")
        && !head.headers.contains_key(CONTENT_ENCODING)
}

impl Receiver for Reply {
    fn head(&self, head: Parts) {
        self.change(|state| {
            state.is_stream = is_stream(&head);
            state.head = Some(head);
        });
    }

    fn data(&self, data: Bytes) {
        self.change(|state| {
            state.waiting_bytes += data.len();
            state.waiting.push(data);
        });
    }

    fn end(&self, outcome: Result<(), ClientError>) {
        self.change(|state| state.end = Some(outcome));
    }

    fn has_room(&self) -> bool {
        lock(&self.state).waiting_bytes < MOST_WAITING_BYTES
    }
}

#[pyclass(frozen, module = "torvyn._native")]
pub struct WireReply {
    reply: Arc<Reply>,
    call: Arc<ClientCall>,
    driven: Arc<DrivenClient>,
}

impl WireReply {
    pub fn new(reply: Arc<Reply>, call: Arc<ClientCall>, driven: Arc<DrivenClient>) -> Self {
        let _ = reply.call.set(call.clone());
        Self { reply, call, driven }
    }
}

#[pymethods]
impl WireReply {
    /// The status, when the head has arrived.
    #[getter]
    fn status(&self) -> Option<u16> {
        lock(&self.reply.state).head.as_ref().map(|head| head.status.as_u16())
    }

    /// By lower-case names. Of a repeated header, the first.
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        if let Some(head) = &lock(&self.reply.state).head {
            for name in head.headers.keys() {
                let value = head.headers.get(name).map_or(&b""[..], |value| value.as_bytes());
                headers.set_item(PyString::new(py, name.as_str()), from_latin1(value))?;
            }
        }
        Ok(headers)
    }

    /// What has arrived, or the parts that the direct path has left; nothing at the end; None if more may come. What has
    /// arrived takes the direct path first, if that is armed; if anything is left, it is not armed any more.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.reply.go_directly(py, &self.driven)?;
        let (armed, parts, waiting, call) = {
            let mut state = lock(&self.reply.state);
            if state.parts.is_none() && state.end.is_none() && (state.is_direct() || state.waiting.is_empty())
            {
                return Ok(None);
            }
            let parts = state.parts.take();
            let (waiting, call) =
                if parts.is_none() { self.reply.take_waiting(&mut state) } else { Default::default() };
            (state.armed.take(), parts, waiting, call)
        };
        // Without the lock: it may have the last references.
        drop(armed);
        if let Some(parts) = parts {
            return Ok(Some(parts.into_bound(py).into_any()));
        }
        if let Some(call) = call {
            self.driven.after(|_| call.resume());
        }
        let bytes = match waiting.as_slice() {
            [] => PyBytes::new(py, b""),
            [only] => PyBytes::new(py, only),
            _ => PyBytes::new(py, &waiting.concat()),
        };
        Ok(Some(bytes.into_any()))
    }

    /// From now on, chunks with text only go through the flow to the answer of `direct`, until something else arrives or
    /// there are so many tokens, one per chunk. It may be called before the head has arrived: a response that is not an
    /// event stream is left to Python.
    #[pyo3(signature = (direct, parser, tokens_left, flow=None))]
    fn arm(
        &self,
        direct: Py<DirectText>,
        parser: Py<ChunkParser>,
        tokens_left: u64,
        flow: Option<Py<NativeFlow>>,
    ) {
        let tokens_left = AtomicU64::new(tokens_left);
        lock(&self.reply.state).armed = Some(Armed { direct, flow, parser, tokens_left });
    }

    /// Seconds since the direct path last took text; None if it never has.
    #[getter]
    fn direct_idle_s(&self) -> Option<f64> {
        lock(&self.reply.state).direct_at.map(|at| at.elapsed().as_secs_f64())
    }

    /// From now on, everything goes to Python.
    fn disarm(&self) {
        lock(&self.reply.state).armed = None;
    }

    /// Sets the result of the future when there is more to take, or the head. False: there is something already.
    fn wait(&self, future: Py<PyAny>, knows_head: bool) -> bool {
        let mut state = lock(&self.reply.state);
        if state.has_news(knows_head) {
            return false;
        }
        state.future = Some(future);
        true
    }

    /// Why the response is not complete: `connect-timeout`, `unreachable`, `tls` or `broken`, and details.
    #[getter]
    fn failure(&self) -> Option<(&'static str, String)> {
        let state = lock(&self.reply.state);
        let Some(Err(error)) = &state.end else { return None };
        let kind = match error {
            ClientError::ConnectTimeout => "connect-timeout",
            ClientError::Unreachable(_) => "unreachable",
            ClientError::Tls(_) => "tls",
            ClientError::Broken(_) => "broken",
        };
        Some((kind, error.to_string()))
    }

    /// Closes the connection.
    fn cancel(&self) {
        self.driven.after(|_| self.call.cancel());
    }

    /// The response is over for its reader: the connection is kept if the body ends within a moment.
    fn release(&self) {
        self.driven.after(|_| self.call.release());
    }
}
