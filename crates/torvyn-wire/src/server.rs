//! A listening socket, and all connections that it has accepted.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;

use crate::bodies::Bodies;
use crate::connection::Connection;
use crate::connection::admission::{self, Counts, OpenConnections, Place};
use crate::events::{Event, Events};
use crate::exchange::Exchange;
use crate::options::Options;
use crate::protocol;
use crate::reactor::{Handle, Interest, Reactor, lock};
use crate::socket::Line;

/// How long nothing is accepted after the system has refused a descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the connections of a server share.
pub struct Shared {
    pub options: Options,
    pub handle: Arc<Handle>,
    pub events: Arc<Events>,
    pub bodies: Arc<Bodies>,
    pub(crate) open: Mutex<OpenConnections>,
    tls: Mutex<Option<Arc<ServerConfig>>>,
    next_id: AtomicU64,
    is_draining: AtomicBool,
    is_stopping: AtomicBool,
    /// The task that accepts.
    acceptor: Mutex<Option<Waker>>,
}

impl Shared {
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The certificate for new connections.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        lock(&self.tls).clone()
    }
}

pub struct Server {
    pub reactor: Reactor,
    shared: Arc<Shared>,
}

impl Server {
    /// Serves on a listening socket that does not block.
    pub fn new(listener: TcpListener, options: Options) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let tls = Mutex::new(options.tls.clone());
        let shared = Arc::new(Shared {
            options,
            tls,
            handle: reactor.handle().clone(),
            events: Arc::default(),
            bodies: Arc::default(),
            open: Mutex::default(),
            next_id: AtomicU64::new(1),
            is_draining: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            acceptor: Mutex::default(),
        });
        let accepting = accept(shared.clone(), mio::net::TcpListener::from_std(listener));
        reactor.handle().spawn(accepting);
        Ok(Self { reactor, shared })
    }

    pub fn events(&self) -> &Events {
        &self.shared.events
    }

    pub fn counts(&self) -> Counts {
        lock(&self.shared.open).counts()
    }

    /// The caller of this request is known: its connection does not count among those of strangers any more.
    pub fn recognise(&self, exchange: &Exchange) {
        if let Some(connection) = exchange.connection.upgrade() {
            lock(&self.shared.open).recognise(&connection);
        }
    }

    /// Another certificate, for connections from now on.
    pub fn set_tls(&self, config: Arc<ServerConfig>) {
        *lock(&self.shared.tls) = Some(config);
    }

    /// Connections end when their requests are answered, except those that carry gRPC. New ones are answered once, so
    /// that a balancer learns that the server drains.
    pub fn drain(&self) {
        self.shared.is_draining.store(true, Ordering::Release);
        lock(&self.shared.open).iter().for_each(|connection| connection.drain());
    }

    /// Accepts no more connections; open ones end when their requests are answered.
    pub fn stop(&self) {
        lock(&self.shared.open).iter().for_each(|connection| connection.stop());
        self.stop_accepting();
    }

    /// Another process accepts what is coming now.
    pub fn stop_accepting(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        if let Some(acceptor) = lock(&self.shared.acceptor).take() {
            acceptor.wake();
        }
    }

    /// Closes every connection, whatever it does.
    pub fn close(&self) {
        self.stop();
        lock(&self.shared.open).iter().for_each(|connection| connection.reset());
    }
}

async fn accept(shared: Arc<Shared>, mut listener: mio::net::TcpListener) {
    let Ok(readiness) = shared.handle.watch(&mut listener, mio::Interest::READABLE) else { return };
    loop {
        poll_fn(|context| {
            *lock(&shared.acceptor) = Some(context.waker().clone());
            if shared.is_stopping.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                readiness.poll(Interest::Read, context)
            }
        })
        .await;
        if shared.is_stopping.load(Ordering::Acquire) {
            return;
        }
        match listener.accept() {
            Ok((stream, peer)) => open(&shared, stream, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => readiness.clear(Interest::Read),
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                // Out of descriptors or memory. Trying again at once would keep a core busy.
                shared.events.push(Event::AcceptFailed(error));
                shared.handle.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The client has gone before it was accepted.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

fn open(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    if !lock(&shared.open).make_room(peer.ip(), &shared.options) {
        return;
    }
    let Ok(line) = Line::open(&shared.handle, stream) else { return };
    let connection = Connection::new(line, peer, shared.is_draining.load(Ordering::Acquire));
    let place = admission::enter(shared, connection.clone());
    let serving = Box::pin(protocol::serve(shared.clone(), connection.clone()));
    shared.handle.spawn(ConnectionTask { serving, connection, _place: place });
}

/// A connection until it ends by itself, or is reset by either side.
struct ConnectionTask<F> {
    serving: Pin<Box<F>>,
    connection: Arc<Connection>,
    _place: Place,
}

impl<F: Future<Output = ()>> Future for ConnectionTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.connection.is_over(context) {
            return Poll::Ready(());
        }
        self.serving.as_mut().poll(context)
    }
}

/// The next look at whether a connection has expired.
pub fn next_look(options: &Options) -> Instant {
    let shortest = options.head_timeout.min(options.keep_alive);
    Instant::now() + (shortest / 2).clamp(Duration::from_millis(20), Duration::from_secs(5))
}
