//! What the wire tells the program that answers.

use std::io;
use std::sync::Mutex;

use crate::exchange::Exchange;
use crate::reactor::lock;

pub enum Event {
    /// A request with its body, to be answered.
    Request(Box<Exchange>),
    /// A full outbox has room again.
    Room(u64),
    /// An inbox that was empty has a message, or the end of all messages.
    Message(u64),
    /// The client sends no more; it may still read.
    HalfClosed(u64),
    /// The client has left, or the connection was closed: nothing more is sent.
    Left(u64),
    /// No connection can be accepted at the moment.
    AcceptFailed(io::Error),
}

#[derive(Default)]
pub struct Events(Mutex<Vec<Event>>);

impl Events {
    pub fn push(&self, event: Event) {
        lock(&self.0).push(event);
    }

    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.0))
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}
