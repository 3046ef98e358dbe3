//! A connection that has become a WebSocket: it sends what its outbox gets, and puts messages into its inbox.
//!
//! - `decoder`: from the bytes of a client to its messages
//! - `frames`: from messages to the bytes of the server
//! - `connection`: a WebSocket from its handshake to its end

mod connection;
mod decoder;
mod frames;

use http::header::{CONNECTION, HeaderMap, HeaderName, UPGRADE};
use http::{Method, Request, Version};
use hyper::upgrade::OnUpgrade;

pub use connection::serve;
pub use frames::{Kind, append_close, append_message};

use crate::connection::InFlight;
use crate::inbox::InboxWriter;

/// What a WebSocket needs when its connection has switched to it.
pub struct Upgrade {
    pub upgraded: OnUpgrade,
    pub inbox: InboxWriter,
    pub in_flight: InFlight,
}

/// Whether a request asks for a WebSocket. Its key and its version are left to the program.
pub fn is_asked<B>(request: &Request<B>) -> bool {
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && lists(request.headers(), &UPGRADE, "websocket")
        && lists(request.headers(), &CONNECTION, "upgrade")
}

fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(token))
}
