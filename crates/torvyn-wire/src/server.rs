//! A listening socket, and all connections that it has accepted.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use slab::Slab;

use crate::bodies::Bodies;
use crate::connection::Connection;
use crate::events::{Event, Events};
use crate::options::Options;
use crate::protocol;
use crate::reactor::{Handle, Interest, Reactor, lock};
use crate::socket::Line;

/// How long nothing is accepted after the system has refused a descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Open {
    connections: Slab<Arc<Connection>>,
    by_address: HashMap<IpAddr, usize>,
}

/// What the connections of a server share.
pub struct Shared {
    pub options: Options,
    pub handle: Arc<Handle>,
    pub events: Arc<Events>,
    pub bodies: Arc<Bodies>,
    open: Mutex<Open>,
    next_id: AtomicU64,
    is_stopping: AtomicBool,
    /// The task that accepts.
    acceptor: Mutex<Option<Waker>>,
}

impl Shared {
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn enter(self: &Arc<Self>, connection: Arc<Connection>) -> OpenConnection {
        let mut open = lock(&self.open);
        *open.by_address.entry(connection.peer.ip()).or_default() += 1;
        let key = open.connections.insert(connection.clone());
        OpenConnection { shared: self.clone(), connection, key }
    }

    /// Makes room for a connection from that address; false if there is none.
    fn make_room(&self, address: IpAddr) -> bool {
        let open = lock(&self.open);
        let is_full = open.connections.len() >= self.options.max_connections;
        let of_address = open.by_address.get(&address).copied().unwrap_or(0);
        if of_address >= self.options.max_connections_per_address {
            return close_idlest(open.connections.iter().filter(|(_, one)| one.peer.ip() == address));
        }
        !is_full || close_idlest(open.connections.iter())
    }
}

/// Closes the connection that has waited longest for a request; false if each of them has one.
fn close_idlest<'a>(connections: impl Iterator<Item = (usize, &'a Arc<Connection>)>) -> bool {
    let idle = connections.filter_map(|(_, one)| one.idle_since().map(|since| (since, one)));
    match idle.min_by_key(|(since, _)| *since) {
        Some((_, connection)) => {
            connection.reset();
            true
        }
        None => false,
    }
}

struct OpenConnection {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    key: usize,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = lock(&self.shared.open);
        open.connections.remove(self.key);
        let address = self.connection.peer.ip();
        if let Some(count) = open.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
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
        let shared = Arc::new(Shared {
            options,
            handle: reactor.handle().clone(),
            events: Arc::default(),
            bodies: Arc::default(),
            open: Mutex::default(),
            next_id: AtomicU64::new(1),
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

    pub fn connections(&self) -> usize {
        lock(&self.shared.open).connections.len()
    }

    /// Accepts no more connections. Open ones end when their requests are answered, except those that carry gRPC.
    pub fn drain(&self) {
        self.end(Connection::drain);
    }

    /// Accepts no more connections; open ones end when their requests are answered.
    pub fn stop(&self) {
        self.end(Connection::stop);
    }

    fn end(&self, connection: impl Fn(&Connection)) {
        self.shared.is_stopping.store(true, Ordering::Release);
        lock(&self.shared.open).connections.iter().for_each(|(_, one)| connection(one));
        if let Some(acceptor) = lock(&self.shared.acceptor).take() {
            acceptor.wake();
        }
    }

    /// Closes every connection, whatever it does.
    pub fn close(&self) {
        self.stop();
        lock(&self.shared.open).connections.iter().for_each(|(_, connection)| connection.reset());
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
    if !shared.make_room(peer.ip()) {
        return;
    }
    let Ok(line) = Line::open(&shared.handle, stream) else { return };
    let connection = Connection::new(line, peer);
    let place = shared.enter(connection.clone());
    let serving = Box::pin(protocol::serve(shared.clone(), connection.clone()));
    shared.handle.spawn(ConnectionTask { serving, connection, _place: place });
}

/// A connection until it ends by itself, or is reset by either side.
struct ConnectionTask<F> {
    serving: Pin<Box<F>>,
    connection: Arc<Connection>,
    _place: OpenConnection,
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
