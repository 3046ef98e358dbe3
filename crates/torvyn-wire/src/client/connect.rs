//! Opens a connection: to the first address that accepts one, then TLS.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mio::net::TcpStream;
use rustix::io::Errno;
use rustls_pki_types::ServerName;
use socket2::{Domain, Protocol, Type};
use tokio_rustls::TlsConnector;

use super::{ClientError, Origin, Shared};
use crate::reactor::{Handle, Sleeper, within};
use crate::socket::{Line, Socket};
use crate::transport::Transport;

/// After so long without an answer the next address is tried as well, as RFC 8305 recommends.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// Tokens are small: what a server sends to a client that does not read waits with the server.
const RECEIVE_BUFFER_BYTES: usize = 16 * 1024;
/// Segments of up to 64 KiB, as between processes of one machine, would wait until all of so small a buffer is free.
const SEGMENT_BYTES: u32 = 2 * 1024;

pub async fn connect(
    shared: &Shared,
    origin: &Origin,
    addresses: &[SocketAddr],
) -> Result<Transport, ClientError> {
    let (handle, limit) = (&shared.handle, shared.options.connect_timeout);
    let race = Race {
        handle,
        waiting: addresses.iter().rev().copied().collect(),
        tried: Vec::new(),
        pause: None,
        last: None,
    };
    let line = within(handle, limit, race).await.ok_or(ClientError::ConnectTimeout)?;
    let line = line.map_err(|error| ClientError::Unreachable(error.to_string()))?;
    line.send_at_once();
    let socket = Socket::new(line);
    if !origin.is_tls {
        return Ok(Transport::plain(socket));
    }
    let name =
        ServerName::try_from(origin.host.clone()).map_err(|error| ClientError::Tls(error.to_string()))?;
    let config = shared.options.tls.clone().ok_or_else(|| ClientError::Tls("no authorities".to_owned()))?;
    let opening = TlsConnector::from(config).connect(name, socket);
    let stream = within(handle, limit, opening).await.ok_or(ClientError::ConnectTimeout)?;
    let stream = stream.map_err(|error| ClientError::Tls(error.to_string()))?;
    Ok(Transport::tls(stream.into()))
}

/// Connects to several addresses, each a moment after the one before it or when that one has failed.
struct Race<'a> {
    handle: &'a Arc<Handle>,
    /// The next one is the last.
    waiting: Vec<SocketAddr>,
    tried: Vec<Arc<Line>>,
    pause: Option<Sleeper>,
    last: Option<io::Error>,
}

impl Race<'_> {
    fn start_next(&mut self) {
        let Some(address) = self.waiting.pop() else { return };
        match begin(address).and_then(|stream| Line::open(self.handle, stream)) {
            Ok(line) => self.tried.push(line),
            Err(error) => self.last = Some(error),
        }
        self.pause = Some(self.handle.sleep(NEXT_ADDRESS));
    }

    /// The first connection; those that have failed are forgotten.
    fn poll_tried(&mut self, context: &mut Context<'_>) -> Option<Arc<Line>> {
        let mut at = 0;
        while at < self.tried.len() {
            match self.tried[at].poll_connected(context) {
                Poll::Ready(Ok(())) => return Some(self.tried.swap_remove(at)),
                Poll::Ready(Err(error)) => {
                    self.last = Some(error);
                    self.tried.swap_remove(at);
                }
                Poll::Pending => at += 1,
            }
        }
        None
    }
}

/// Begins to connect. Both sizes count from the handshake on.
fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.set_tcp_mss(SEGMENT_BYTES)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

impl Future for Race<'_> {
    type Output = io::Result<Arc<Line>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(line) = self.poll_tried(context) {
                return Poll::Ready(Ok(line));
            }
            if self.waiting.is_empty() && self.tried.is_empty() {
                let none = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
                return Poll::Ready(Err(self.last.take().unwrap_or_else(none)));
            }
            let is_due = self.tried.is_empty()
                || self.pause.as_mut().is_some_and(|pause| Pin::new(pause).poll(context).is_ready());
            if self.waiting.is_empty() || !is_due {
                return Poll::Pending;
            }
            self.start_next();
        }
    }
}
