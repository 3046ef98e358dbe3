//! The wire of a server, HTTP/1.1 and HTTP/2 over TCP or TLS, and a client; on whatever thread drives them.
//!
//! - `server`: a listening socket and its connections
//! - `protocol`: TLS, HTTP/1.1 or HTTP/2, timeouts
//! - `transport`: its bytes, without heads that could be read in two ways
//! - `connection`: what is known of one connection, and which one makes room for another
//! - `service`: a request to an exchange, and its answer back
//! - `bodies`: request bodies, within limits
//! - `answer`: the head of an answer, its outbox, and its body as hyper takes it
//! - `grpc`: calls, which are handed over at their head, and their messages
//! - `inbox`: the messages of a client that sends many
//! - `events`: what the program that answers is told
//! - `websocket`: connections that have become WebSockets
//! - `client`: requests to other servers
//! - `reactor`: sockets, timers and tasks, driven by another event loop

#![forbid(unsafe_code)]

mod answer;
mod bodies;
mod client;
mod connection;
mod events;
mod exchange;
mod grpc;
mod inbox;
mod options;
mod protocol;
mod reactor;
mod server;
mod service;
mod socket;
mod tls;
mod transport;
mod websocket;

pub use answer::{Answer, CAPACITY};
pub use bodies::BodyError;
pub use bytes;
pub use client::{Client, ClientCall, ClientError, ClientOptions, Origin, Receiver, client_config};
pub use connection::admission::Counts;
pub use events::{Event, Events};
pub use exchange::{Exchange, Framing};
pub use http;
pub use http_body_util::Full;
pub use inbox::{End, Inbox, InboxWriter, Message, inbox};
pub use options::Options;
pub use reactor::{Reactor, TURN};
pub use server::Server;
pub use tls::server_config;
