//! A client of other servers: requests go in, and turns tell which responses have more to read.

pub mod direct;
pub mod reply;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use torvyn_wire::bytes::Bytes;
use torvyn_wire::http::{Method, Request, Uri};
use torvyn_wire::{Client, ClientOptions, Full, Origin, TURN, client_config};

use reply::{Reply, WireReply};

use crate::lock::lock;
use crate::wire::headers::{header_map, invalid};

/// Shared with the replies, which run it when they are read or given up.
pub struct DrivenClient {
    client: Mutex<Client>,
    /// Replies that have something to read, those that have waited longest first.
    woken: Arc<Mutex<VecDeque<Arc<Reply>>>>,
}

impl DrivenClient {
    fn lock(&self) -> MutexGuard<'_, Client> {
        lock(&self.client)
    }

    /// Runs the connections that `work` has woken. What this brings is left to the next turn.
    pub fn after<T>(&self, work: impl FnOnce(&Client) -> T) -> T {
        let mut client = self.lock();
        let made = client.reactor.before_run(|| work(&client));
        client.reactor.run_woken();
        if !lock(&self.woken).is_empty() {
            client.reactor.handle().ring();
        }
        made
    }

    fn next_woken(&self) -> Option<Arc<Reply>> {
        lock(&self.woken).pop_front()
    }

    /// The replies that are left have the next turn.
    fn leave_woken(&self) {
        if !lock(&self.woken).is_empty() {
            self.lock().reactor.handle().ring();
        }
    }
}

#[pyclass(frozen, module = "torvyn._native")]
pub struct WireClient {
    driven: Arc<DrivenClient>,
    fd: RawFd,
}

#[pymethods]
impl WireClient {
    /// `roots` are the certificates of authorities, as PEM; needed for `https`.
    #[new]
    #[pyo3(signature = (*, connect_timeout_s, keep_alive_s, roots=None))]
    fn new(connect_timeout_s: f64, keep_alive_s: f64, roots: Option<&[u8]>) -> PyResult<Self> {
        let tls = roots.map(client_config).transpose().map_err(PyValueError::new_err)?;
        let client = Client::new(ClientOptions {
            connect_timeout: Duration::from_secs_f64(connect_timeout_s),
            keep_alive: Duration::from_secs_f64(keep_alive_s),
            tls,
        })?;
        let fd = client.reactor.as_raw_fd();
        let driven = DrivenClient { client: Mutex::new(client), woken: Arc::default() };
        Ok(Self { driven: Arc::new(driven), fd })
    }

    /// Readable when there is something to do.
    fn fileno(&self) -> RawFd {
        self.fd
    }

    /// Reads and writes what is ready. Returns the futures of replies that have more to read, and in how many seconds
    /// a timer is due.
    fn turn<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Option<f64>)> {
        let began = Instant::now();
        let due = self.driven.lock().reactor.turn()?;
        let futures = PyList::empty(py);
        while let Some(reply) = self.driven.next_woken() {
            if let Some(future) = reply.advance(py, &self.driven)? {
                futures.append(future)?;
            }
            if began.elapsed() >= TURN {
                self.driven.leave_woken();
                break;
            }
        }
        let due_s = due.map(|due| due.saturating_duration_since(Instant::now()).as_secs_f64());
        Ok((futures, due_s))
    }

    /// Sends a POST request to `host`, which has these addresses, over a kept connection if there is one.
    #[allow(clippy::too_many_arguments)]
    fn post(
        &self,
        host: String,
        port: u16,
        is_tls: bool,
        addresses: Vec<String>,
        path: &str,
        headers: Vec<(String, String)>,
        body: &[u8],
    ) -> PyResult<WireReply> {
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|one| Ok((one.parse::<IpAddr>()?, port).into())).collect::<PyResult<_>>()?;
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.parse::<Uri>().map_err(invalid)?;
        *request.headers_mut() = header_map(&headers, |value| value.as_bytes().into())?;
        let reply = Reply::new(self.driven.woken.clone());
        let origin = Origin { is_tls, host, port };
        let call = self.driven.after(|client| client.send(origin, addresses, request, reply.clone()));
        Ok(WireReply::new(reply, call, self.driven.clone()))
    }

    /// Connections, with those that are being opened.
    #[getter]
    fn connections(&self) -> usize {
        self.driven.lock().connections()
    }

    /// Connections that wait for the end of a body.
    #[getter]
    fn draining(&self) -> usize {
        self.driven.lock().draining()
    }

    /// Closes every connection.
    fn close(&self) {
        self.driven.after(Client::close);
    }
}
