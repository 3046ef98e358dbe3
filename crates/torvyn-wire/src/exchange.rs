//! One request, ready to be answered.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::request::Parts;

use crate::answer::Answer;
use crate::bodies::BodyError;
use crate::connection::Connection;
use crate::inbox::Inbox;

pub struct Exchange {
    pub head: Parts,
    pub body: Result<Bytes, BodyError>,
    pub peer: SocketAddr,
    pub answer: Arc<Answer>,
    /// For a client that sends many messages.
    pub inbox: Option<Inbox>,
    /// Weak, because a connection that is over must be closed, whoever still has its requests.
    pub(crate) connection: Weak<Connection>,
}

impl Exchange {
    /// Ends the answer as broken. Over HTTP/1 the connection is reset; over HTTP/2 the stream is.
    pub fn abort(&self) {
        self.answer.abort();
        if self.head.version < http::Version::HTTP_2
            && let Some(connection) = self.connection.upgrade()
        {
            connection.reset();
        }
    }
}
