//! Requests to other servers, over kept connections, on whatever thread drives them.
//!
//! - `call`: one request, and who receives its response
//! - `connect`: addresses to a connection, with or without TLS
//! - `connection`: an HTTP/1.1 connection, from its first request to its end
//! - `idle`: connections that wait for another request

mod call;
mod connect;
mod connection;
mod idle;
mod roots;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use slab::Slab;
use tokio_rustls::rustls::ClientConfig;

use crate::reactor::{Handle, Reactor, lock};
use call::{Attempt, Delivery};
pub use call::{ClientCall, Receiver};
use idle::IdleConnections;
pub use roots::client_config;

/// Why there is no response, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("no connection in time")]
    ConnectTimeout,
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Tls(String),
    /// The connection ended before the response did.
    #[error("{0}")]
    Broken(String),
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
}

pub struct ClientOptions {
    pub connect_timeout: Duration,
    /// How long a connection without a request is kept.
    pub keep_alive: Duration,
    /// Needed for origins with TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

/// What the connections of a client share.
struct Shared {
    options: ClientOptions,
    handle: Arc<Handle>,
    idle: IdleConnections,
    tasks: Mutex<Slab<Option<Waker>>>,
    is_closed: AtomicBool,
    /// Connections whose response is over but for the end of its body.
    draining: AtomicUsize,
}

impl Shared {
    /// Starts a task that ends with the client.
    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let key = lock(&self.tasks).insert(None);
        let task = ClientTask { work: Box::pin(work), shared: self.clone(), key };
        self.handle.spawn(task);
    }
}

pub struct Client {
    pub reactor: Reactor,
    shared: Arc<Shared>,
}

impl Client {
    pub fn new(options: ClientOptions) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let shared = Arc::new(Shared {
            options,
            handle: reactor.handle().clone(),
            idle: IdleConnections::default(),
            tasks: Mutex::default(),
            is_closed: AtomicBool::new(false),
            draining: AtomicUsize::new(0),
        });
        Ok(Self { reactor, shared })
    }

    /// Sends a request, over a kept connection if there is one; the addresses are those of its origin.
    pub fn send(
        &self,
        origin: Origin,
        addresses: Vec<SocketAddr>,
        request: Request<Full<Bytes>>,
        receiver: Arc<dyn Receiver>,
    ) -> Arc<ClientCall> {
        let call = ClientCall::new();
        let delivery = Delivery::new(receiver, call.clone());
        let attempt = Attempt { origin, addresses, request, delivery };
        if self.shared.is_closed.load(Ordering::Acquire) {
            attempt.delivery.end(Err(ClientError::Unreachable("the client is closed".to_owned())));
        } else if let Some(attempt) = self.shared.idle.assign(attempt) {
            self.shared.spawn(connection::open(self.shared.clone(), attempt));
        }
        call
    }

    /// Connections, with those that are being opened.
    pub fn connections(&self) -> usize {
        lock(&self.shared.tasks).len()
    }

    pub fn draining(&self) -> usize {
        self.shared.draining.load(Ordering::Acquire)
    }

    /// Ends every connection when it next runs.
    pub fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Release);
        lock(&self.shared.tasks).iter_mut().filter_map(|(_, task)| task.take()).for_each(Waker::wake);
    }
}

struct ClientTask<F> {
    work: Pin<Box<F>>,
    shared: Arc<Shared>,
    key: usize,
}

impl<F: Future<Output = ()>> Future for ClientTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        {
            let mut tasks = lock(&self.shared.tasks);
            let known = &mut tasks[self.key];
            if !known.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                *known = Some(context.waker().clone());
            }
        }
        if self.shared.is_closed.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.work.as_mut().poll(context)
    }
}

impl<F> Drop for ClientTask<F> {
    fn drop(&mut self) {
        lock(&self.shared.tasks).remove(self.key);
    }
}
