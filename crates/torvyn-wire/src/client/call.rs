//! One request on its way, and who receives its response.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Request;
use http::response::Parts;
use http_body_util::Full;

use super::{ClientError, Origin};
use crate::reactor::lock;

/// Receives a response, on the thread that drives the client. It is told of exactly one end.
pub trait Receiver: Send + Sync {
    fn head(&self, head: Parts);
    fn data(&self, data: Bytes);
    fn end(&self, outcome: Result<(), ClientError>);
    /// While it has no room the connection is not read; `ClientCall::resume` ends that.
    fn has_room(&self) -> bool;
}

#[derive(Default)]
struct State {
    task: Option<Waker>,
    is_cancelled: bool,
    is_released: bool,
}

/// What the sender of a request keeps.
pub struct ClientCall(Mutex<State>);

impl ClientCall {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    /// Nobody wants the response: its connection is closed.
    pub fn cancel(&self) {
        self.change(|state| state.is_cancelled = true);
    }

    /// The response is over for its receiver. Its connection is kept if the body ends within a moment.
    pub fn release(&self) {
        self.change(|state| state.is_released = true);
    }

    /// The receiver has room again.
    pub fn resume(&self) {
        self.change(|_| ());
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.0);
        change(&mut state);
        if let Some(task) = state.task.take() {
            task.wake();
        }
    }

    pub(super) fn is_released(&self) -> bool {
        lock(&self.0).is_released
    }

    /// Whether it was cancelled; the task is woken when anything changes.
    pub(super) fn is_cancelled(&self, context: &mut Context<'_>) -> bool {
        let mut state = lock(&self.0);
        if !state.task.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            state.task = Some(context.waker().clone());
        }
        state.is_cancelled
    }

    /// The result of `work`; None if the call is cancelled before.
    pub(super) async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.is_cancelled(context) {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    }
}

/// The way to a receiver. It ends the response as broken if nothing else does.
pub(super) struct Delivery {
    receiver: Arc<dyn Receiver>,
    pub call: Arc<ClientCall>,
    is_ended: AtomicBool,
}

impl Delivery {
    pub fn new(receiver: Arc<dyn Receiver>, call: Arc<ClientCall>) -> Self {
        Self { receiver, call, is_ended: AtomicBool::new(false) }
    }

    pub fn head(&self, head: Parts) {
        self.receiver.head(head);
    }

    pub fn data(&self, data: Bytes) {
        self.receiver.data(data);
    }

    pub fn has_room(&self) -> bool {
        self.receiver.has_room()
    }

    pub fn end(&self, outcome: Result<(), ClientError>) {
        if !self.is_ended.swap(true, Ordering::AcqRel) {
            self.receiver.end(outcome);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.end(Err(ClientError::Broken("the connection was closed".to_owned())));
    }
}

/// A request that waits for a connection.
pub(super) struct Attempt {
    pub origin: Origin,
    pub addresses: Vec<SocketAddr>,
    pub request: Request<Full<Bytes>>,
    pub delivery: Delivery,
}
