//! One request, ready to be answered.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::request::Parts;

use crate::answer::Answer;
use crate::bodies::BodyError;
use crate::connection::Connection;
use crate::inbox::Inbox;
use crate::websocket::{append_close, append_text};

/// How the messages of an answer are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not by the wire: the answer is a body.
    None,
    WebSocket,
}

pub struct Exchange {
    pub head: Parts,
    pub body: Result<Bytes, BodyError>,
    pub peer: SocketAddr,
    pub answer: Arc<Answer>,
    pub framing: Framing,
    /// For a client that sends many messages.
    pub inbox: Option<Inbox>,
    /// Weak, because a connection that is over must be closed, whoever still has its requests.
    pub(crate) connection: Weak<Connection>,
}

impl Exchange {
    /// Appends what `write` writes, as one message. False: nobody reads it any more.
    pub fn append_with(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        match self.framing {
            Framing::None => self.answer.append_with(write),
            Framing::WebSocket => self.answer.append_with(|buffer| append_text(buffer, write)),
        }
    }

    /// Closes a WebSocket.
    pub fn close(&self, code: u16, reason: &str) {
        self.answer.append_with(|buffer| append_close(buffer, code.into(), reason));
        self.answer.finish(None);
    }

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
