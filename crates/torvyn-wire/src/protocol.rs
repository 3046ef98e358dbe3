//! Finds the protocol of a connection, and serves it until its end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::server::conn::{http1, http2};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::options::{
    CONNECTION_WINDOW_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, PING, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES,
};
use crate::reactor::{Handle, Sleeper, lock, within};
use crate::server::{Shared, next_look};
use crate::service::{Service, StreamExecutor, UpgradeSlot};
use crate::socket::Socket;
use crate::transport::Transport;
use crate::websocket;

/// How an HTTP/2 connection begins without TLS. What begins like this is not HTTP/1, even if it goes on differently.
const HTTP2: &[u8] = b"PRI * HTTP/2.0";

const LINGER: Duration = Duration::from_millis(500);

pub async fn serve(shared: Arc<Shared>, connection: Arc<Connection>) {
    // In boxes, because a connection would have room for each of these steps until its end.
    let opening = Box::pin(open(&shared, &connection));
    let Some(Some((transport, is_http2))) =
        within(&shared.handle, shared.options.head_timeout, opening).await
    else {
        return;
    };
    let upgrade = UpgradeSlot::default();
    let service =
        Service { shared: shared.clone(), connection: connection.clone(), upgrade: upgrade.clone() };
    let hyper = if is_http2 {
        Hyper::Http2(Box::pin(http2_builder(&shared).serve_connection(transport, service)))
    } else {
        let serving = http1_builder(&shared).serve_connection(transport.with_head_check(), service);
        Hyper::Http1(Box::pin(serving.with_upgrades()))
    };
    let watch = shared.handle.sleep_until(next_look(&shared.options));
    let serving =
        Serving { hyper, shared: shared.clone(), connection: connection.clone(), watch, is_told: false };
    let ended = serving.await;
    let upgrade = lock(&upgrade).take();
    if let Some(upgrade) = upgrade {
        Box::pin(websocket::serve(shared, connection, upgrade)).await;
    } else if ended == Ended::Complete {
        Box::pin(linger(&shared.handle, &connection)).await;
    }
}

/// Reads what the client still sends, for a moment: closing before would reset the connection, and the client might
/// lose the last answer, which says what was wrong.
async fn linger(handle: &Handle, connection: &Connection) {
    if connection.line.discard() {
        within(handle, LINGER, poll_fn(|context| connection.line.poll_discard(context))).await;
    }
}

async fn open(shared: &Shared, connection: &Connection) -> Option<(Transport, bool)> {
    let mut socket = Socket::new(connection.line.clone());
    if let Some(config) = shared.tls() {
        let stream = TlsAcceptor::from(config).accept(socket).await.ok()?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        return Some((Transport::tls(stream.into()), is_http2));
    }
    let mut first = Vec::with_capacity(64);
    while first.len() < HTTP2.len() && HTTP2.starts_with(&first) {
        let mut bytes = [0_u8; 64];
        let count = socket.read(&mut bytes).await.ok().filter(|count| *count > 0)?;
        first.extend_from_slice(&bytes[..count]);
    }
    let is_http2 = first.starts_with(HTTP2);
    socket.unread(first);
    Some((Transport::plain(socket), is_http2))
}

fn http1_builder(shared: &Shared) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(shared.handle.timer())
        .header_read_timeout(None)
        .half_close(true)
        .max_buf_size(SEND_BUFFER_BYTES.max(MAX_HEAD_BYTES))
        .max_headers(MAX_HEADERS);
    builder
}

fn http2_builder(shared: &Shared) -> http2::Builder<StreamExecutor> {
    let mut builder = http2::Builder::new(StreamExecutor(shared.handle.clone()));
    builder
        .timer(shared.handle.timer())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(shared.options.max_streams)
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    builder
}

type Http1 = http1::UpgradeableConnection<Transport, Service>;
type Http2 = http2::Connection<Transport, Service, StreamExecutor>;

enum Hyper {
    Http1(Pin<Box<Http1>>),
    Http2(Pin<Box<Http2>>),
}

/// A connection whose protocol is known.
struct Serving {
    hyper: Hyper,
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    watch: Sleeper,
    /// Whether hyper knows that the server stops.
    is_told: bool,
}

impl Serving {
    fn shut_down(&mut self) {
        if !std::mem::replace(&mut self.is_told, true) {
            match &mut self.hyper {
                Hyper::Http1(connection) => connection.as_mut().graceful_shutdown(),
                Hyper::Http2(connection) => connection.as_mut().graceful_shutdown(),
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Ended {
    /// The last answer was sent, or the client is gone.
    Complete,
    Expired,
}

impl Future for Serving {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        let this = &mut *self;
        if this.connection.is_stopping() {
            this.shut_down();
        }
        while Pin::new(&mut this.watch).poll(context).is_ready() {
            let is_http2 = matches!(this.hyper, Hyper::Http2(_));
            if this.connection.is_expired(&this.shared.options, is_http2, Instant::now()) {
                if this.is_told || !is_http2 {
                    return Poll::Ready(Ended::Expired);
                }
                // An HTTP/2 client learns that the connection ends; if it does not leave, the next look closes it.
                this.shut_down();
            }
            this.watch.reset(next_look(&this.shared.options));
        }
        this.connection.notice_half_close(context);
        match &mut this.hyper {
            Hyper::Http1(connection) => connection.as_mut().poll(context).map(|_| Ended::Complete),
            Hyper::Http2(connection) => connection.as_mut().poll(context).map(|_| Ended::Complete),
        }
    }
}
