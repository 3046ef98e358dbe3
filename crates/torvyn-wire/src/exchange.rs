//! One request, ready to be answered.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::request::Parts;
use http::response;

use crate::answer::Answer;
use crate::bodies::BodyError;
use crate::connection::Connection;
use crate::grpc;
use crate::inbox::Inbox;
use crate::websocket::{Kind, append_close, append_message};

/// How the messages of an answer are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not by the wire: the answer is a body.
    None,
    WebSocket,
    Grpc,
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
    /// The head of an answer, and its first messages, which leave with what is appended next.
    pub fn hold<'a>(&self, head: response::Parts, messages: impl Iterator<Item = &'a [u8]>) {
        self.answer.hold(head, |buffer| {
            for message in messages {
                match self.framing {
                    Framing::Grpc => grpc::append_message(buffer, |out| out.extend_from_slice(message)),
                    _ => buffer.extend_from_slice(message),
                }
            }
        });
    }

    /// Appends what `write` writes, as one message. False: nobody reads it any more.
    pub fn append_with(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        match self.framing {
            Framing::None => self.answer.append_with(write),
            Framing::WebSocket => self.append_to_websocket(Kind::Text, write),
            Framing::Grpc => self.answer.append_with(|buffer| grpc::append_message(buffer, write)),
        }
    }

    /// `append_with` of a message that is not text.
    pub fn append_data(&self, data: &[u8]) -> bool {
        self.append_to_websocket(Kind::Data, |buffer| buffer.extend_from_slice(data))
    }

    fn append_to_websocket(&self, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.answer.append_with(|buffer| append_message(buffer, kind, write))
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
