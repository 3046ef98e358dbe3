//! The server of a transport: requests come out of its turns, answers go in.

pub mod direct_steps;
pub mod exchange;
pub mod text_frame;

use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use torvyn_wire::{Event, Options, Server, server_config};

use exchange::WireExchange;

use crate::lock::lock;

/// What an event is about; a request is an exchange.
const ROOM: u8 = 0;
const HALF_CLOSED: u8 = 1;
const LEFT: u8 = 2;
const ACCEPT_FAILED: u8 = 3;
const MESSAGE: u8 = 4;

/// Shared with the exchanges, which run it after they have appended.
pub struct Driven(Mutex<Server>);

impl Driven {
    pub fn lock(&self) -> MutexGuard<'_, Server> {
        lock(&self.0)
    }

    /// Runs the connections that `work` has woken. Events that this causes are left to the next turn.
    pub fn after<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut server = self.lock();
        let made = server.reactor.before_run(work);
        server.reactor.run_woken();
        if !server.events().is_empty() {
            server.reactor.handle().ring();
        }
        made
    }
}

#[pyclass(frozen, module = "torvyn._native")]
pub struct WireServer {
    driven: Arc<Driven>,
    fd: RawFd,
}

#[pymethods]
impl WireServer {
    /// Takes a listening socket, by its descriptor, and the certificate and key as PEM.
    #[new]
    #[pyo3(signature = (fd, *, max_body_bytes, max_bodies_bytes, body_timeout_s, head_timeout_s, keep_alive_s,
                        max_connections, max_unknown, max_unknown_per_address, has_keys, max_streams, tls=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        fd: RawFd,
        max_body_bytes: usize,
        max_bodies_bytes: usize,
        body_timeout_s: f64,
        head_timeout_s: f64,
        keep_alive_s: f64,
        max_connections: usize,
        max_unknown: usize,
        max_unknown_per_address: usize,
        has_keys: bool,
        max_streams: u32,
        tls: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Self> {
        // SAFETY: the caller gives the descriptor away.
        let listener = unsafe { TcpListener::from_raw_fd(fd) };
        let tls = match tls {
            Some((chain, key)) => Some(server_config(&chain, &key).map_err(PyValueError::new_err)?),
            None => None,
        };
        let options = Options {
            max_body_bytes,
            max_bodies_bytes,
            body_timeout: Duration::from_secs_f64(body_timeout_s),
            head_timeout: Duration::from_secs_f64(head_timeout_s),
            keep_alive: Duration::from_secs_f64(keep_alive_s),
            max_connections,
            max_unknown,
            max_unknown_per_address,
            has_keys,
            max_streams,
            tls,
        };
        let server = Server::new(listener, options)?;
        let fd = server.reactor.as_raw_fd();
        Ok(Self { driven: Arc::new(Driven(Mutex::new(server))), fd })
    }

    /// Readable when there is something to do.
    fn fileno(&self) -> RawFd {
        self.fd
    }

    /// Reads and writes what is ready. Returns new exchanges and events, and in how many seconds a timer is due.
    fn turn<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Option<f64>)> {
        let (events, due) = {
            let mut server = self.driven.lock();
            let due = server.reactor.turn()?;
            (server.events().take(), due)
        };
        let list = PyList::empty(py);
        for event in events {
            match event {
                Event::Request(exchange) => list.append(WireExchange::new(exchange, self.driven.clone()))?,
                Event::Room(id) => list.append((ROOM, id))?,
                Event::Message(id) => list.append((MESSAGE, id))?,
                Event::HalfClosed(id) => list.append((HALF_CLOSED, id))?,
                Event::Left(id) => list.append((LEFT, id))?,
                Event::AcceptFailed(error) => list.append((ACCEPT_FAILED, error.to_string()))?,
            }
        }
        let due_s = due.map(|due| due.saturating_duration_since(Instant::now()).as_secs_f64());
        Ok((list, due_s))
    }

    /// Connections that are open, that brought a valid key, that were closed to make room, that found no room.
    fn counts(&self) -> (usize, usize, u64, u64) {
        let counts = self.driven.lock().counts();
        (counts.open, counts.known, counts.evicted, counts.refused)
    }

    /// Another certificate and key, as PEM, for connections from now on.
    fn set_tls(&self, chain: &[u8], key: &[u8]) -> PyResult<()> {
        let config = server_config(chain, key).map_err(PyValueError::new_err)?;
        self.driven.lock().set_tls(config);
        Ok(())
    }

    /// Connections end when their requests are answered, except those that carry gRPC; new ones are answered once.
    fn drain(&self) {
        self.driven.lock().drain();
    }

    /// Another process accepts what is coming now.
    fn stop_accepting(&self) {
        self.driven.lock().stop_accepting();
    }

    /// Accepts no more connections; open ones end when their requests are answered.
    fn stop(&self) {
        self.driven.lock().stop();
    }

    /// Closes every connection.
    fn close(&self) {
        let mut server = self.driven.lock();
        server.close();
        server.reactor.run_ready();
    }
}
