//! The response to a request, while it arrives.

use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use torvyn_wire::bytes::Bytes;
use torvyn_wire::http::response::Parts;
use torvyn_wire::{ClientCall, ClientError, Receiver};

use super::{DrivenClient, lock};

/// What may wait to be read before the connection waits, too.
const MOST_WAITING_BYTES: usize = 64 * 1024;

#[derive(Default)]
struct State {
    head: Option<Parts>,
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    end: Option<Result<(), ClientError>>,
    /// The future of whoever waits for more.
    future: Option<Py<PyAny>>,
    is_woken: bool,
}

impl State {
    fn has_news(&self, knows_head: bool) -> bool {
        self.end.is_some() || !self.waiting.is_empty() || (!knows_head && self.head.is_some())
    }
}

pub struct Reply {
    state: Mutex<State>,
    woken: Arc<Mutex<Vec<Arc<Reply>>>>,
    this: Weak<Self>,
}

impl Reply {
    pub fn new(woken: Arc<Mutex<Vec<Arc<Reply>>>>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self { state: Mutex::default(), woken, this: this.clone() })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        if !std::mem::replace(&mut state.is_woken, true)
            && let Some(this) = self.this.upgrade()
        {
            lock(&self.woken).push(this);
        }
    }

    /// The turn tells whoever waits.
    pub fn take_future(&self) -> Option<Py<PyAny>> {
        let mut state = lock(&self.state);
        state.is_woken = false;
        state.future.take()
    }
}

impl Receiver for Reply {
    fn head(&self, head: Parts) {
        self.change(|state| state.head = Some(head));
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
                let text: String = value.iter().map(|byte| char::from(*byte)).collect();
                headers.set_item(PyString::new(py, name.as_str()), text)?;
            }
        }
        Ok(headers)
    }

    /// What has arrived; nothing at the end; None if more may come.
    fn take<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let (waiting, bytes, is_over) = {
            let mut state = lock(&self.reply.state);
            let bytes = std::mem::take(&mut state.waiting_bytes);
            (std::mem::take(&mut state.waiting), bytes, state.end.is_some())
        };
        if bytes >= MOST_WAITING_BYTES {
            self.driven.after(|_| self.call.resume());
        }
        match waiting.as_slice() {
            [] => is_over.then(|| PyBytes::new(py, b"")),
            [only] => Some(PyBytes::new(py, only)),
            _ => Some(PyBytes::new(py, &waiting.concat())),
        }
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
