//! The limits of a server, and its certificate.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ServerConfig;

pub struct Options {
    pub max_body_bytes: usize,
    /// What all bodies that are being received may take together.
    pub max_bodies_bytes: usize,
    pub body_timeout: Duration,
    /// From the first byte of a head to its last; also of a TLS handshake.
    pub head_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub keep_alive: Duration,
    pub max_connections: usize,
    /// Connections that were not recognised, all together and of one address: the rest is for callers with a key.
    pub max_unknown: usize,
    pub max_unknown_per_address: usize,
    /// Whether callers need a key.
    pub has_keys: bool,
    /// Requests at once on one HTTP/2 connection.
    pub max_streams: u32,
    /// Of the first connections; it can be replaced.
    pub tls: Option<Arc<ServerConfig>>,
}

pub const MAX_HEAD_BYTES: usize = 32 * 1024;
pub const MAX_HEADERS: usize = 100;
/// What hyper may buffer of an answer.
pub const SEND_BUFFER_BYTES: usize = 16 * 1024;
pub const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
pub const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
pub const PING: Duration = Duration::from_secs(20);
