//! One answer on its way: its head, and an outbox between whoever produces it and the connection that sends it.
//!
//! The outbox is empty while nothing waits. At its capacity the producer waits until the connection has taken it.
//!
//! What comes first, or after a pause, is sent at once. What follows within `TOGETHER` is sent together after that time:
//! a client sees no difference, and a write costs as much as everything else that is done for a token.

mod body;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use http::response::Parts;
use http_body::Frame;

use crate::events::{Event, Events};
use crate::reactor::{Handle, lock};
pub use body::AnswerBody;

pub const CAPACITY: usize = 8 * 1024;
/// How much a connection takes at once: what it has taken is in memory beside what waits.
const TAKEN_BYTES: usize = 8 * 1024;
const TOGETHER: Duration = Duration::from_millis(5);
/// So many parts are sent at once: the start of an answer, and its first text.
const FIRST_PARTS: u8 = 2;
/// So much is not kept to be sent together with more.
const TOGETHER_BYTES: usize = 4 * 1024;

#[derive(Default)]
struct State {
    head: Option<Parts>,
    /// The head waits for what is appended next: until then another answer may replace it.
    is_held: bool,
    whole: Option<Bytes>,
    /// What waits in front of the buffer, because not all of it was taken.
    rest: Bytes,
    buffer: Vec<u8>,
    trailers: Option<HeaderMap>,
    is_finished: bool,
    is_left: bool,
    is_aborted: bool,
    wants_room: bool,
    /// Parts of the body that were taken, as far as it matters.
    parts: u8,
    appended_at: Option<Instant>,
    /// When a part of the body was last taken.
    taken_at: Option<Instant>,
    /// Whether a timer wakes the connection.
    is_timed: bool,
    /// The connection, which waits for the head or for more of the body.
    sender: Option<Waker>,
    /// The task of an HTTP/2 stream, which ends when the answer is aborted.
    stream: Option<Waker>,
}

impl State {
    fn waiting_bytes(&self) -> usize {
        self.rest.len() + self.buffer.len()
    }

    fn discard(&mut self) {
        self.rest = Bytes::new();
        self.buffer = Vec::new();
    }

    /// The next part of what waits. The last part takes the memory along: an idle outbox has none.
    fn next_part(&mut self) -> Bytes {
        if self.rest.is_empty() {
            if self.buffer.capacity() > 2 * self.buffer.len() {
                // It may stay in memory for as long as the client does not read.
                self.buffer.shrink_to_fit();
            }
            self.rest = Bytes::from(std::mem::take(&mut self.buffer));
        }
        let count = self.rest.len().min(TAKEN_BYTES);
        self.rest.split_to(count)
    }

    fn wake(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }
}

pub struct Answer {
    pub id: u64,
    state: Mutex<State>,
    events: Arc<Events>,
    handle: Arc<Handle>,
}

impl Answer {
    pub fn new(id: u64, events: Arc<Events>, handle: Arc<Handle>) -> Arc<Self> {
        Arc::new(Self { id, state: Mutex::default(), events, handle })
    }

    // For the producer

    /// The head, and what `write` writes behind it. Both leave with what is appended next, or by `release`.
    pub fn hold(&self, head: Parts, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = lock(&self.state);
        state.head = Some(head);
        state.is_held = true;
        write(&mut state.buffer);
    }

    /// Sends what is held.
    pub fn release(&self) {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.is_held) {
            state.wake();
        }
    }

    /// Whether the client could still get another answer.
    pub fn is_held(&self) -> bool {
        lock(&self.state).is_held
    }

    /// The whole answer, instead of one that is held.
    pub fn respond(&self, head: Parts, body: Bytes) {
        let mut state = lock(&self.state);
        state.is_held = false;
        state.discard();
        state.head = Some(head);
        state.whole = Some(body).filter(|body| !body.is_empty());
        state.is_finished = true;
        state.wake();
    }

    /// Appends what `write` writes. False: nobody reads it any more.
    pub fn append_with(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut state = lock(&self.state);
        if state.is_left || state.is_finished || state.is_aborted {
            return false;
        }
        write(&mut state.buffer);
        let now = Instant::now();
        state.appended_at = Some(now);
        state.is_held = false;
        self.wake_in_time(&mut state, now);
        true
    }

    fn wake_in_time(&self, state: &mut State, now: Instant) {
        let last = state.taken_at.filter(|_| state.parts >= FIRST_PARTS);
        let due = last.map(|at| at + TOGETHER).filter(|due| now < *due);
        match (due, &state.sender) {
            (Some(due), Some(sender)) if state.waiting_bytes() < TOGETHER_BYTES => {
                if !std::mem::replace(&mut state.is_timed, true) {
                    self.handle.wake_at(due, sender.clone());
                }
            }
            _ => state.wake(),
        }
    }

    /// When something was last appended.
    pub fn appended_at(&self) -> Option<Instant> {
        lock(&self.state).appended_at
    }

    pub fn append(&self, data: &[u8]) -> bool {
        self.append_with(|buffer| buffer.extend_from_slice(data))
    }

    /// Whether the producer must wait for room; if so, an event tells when there is some.
    pub fn must_wait(&self) -> bool {
        let mut state = lock(&self.state);
        state.wants_room = !state.is_left && state.waiting_bytes() >= CAPACITY;
        if state.wants_room {
            // It may stay like this for as long as the client does not read.
            state.buffer.shrink_to_fit();
        }
        state.wants_room
    }

    /// Whether it is at its capacity.
    pub fn is_full(&self) -> bool {
        lock(&self.state).waiting_bytes() >= CAPACITY
    }

    /// No more follows, except trailers.
    pub fn finish(&self, trailers: Option<HeaderMap>) {
        let mut state = lock(&self.state);
        (state.is_held, state.is_finished) = (false, true);
        state.trailers = trailers;
        state.wake();
    }

    /// Drops what waits and ends the answer as broken.
    pub fn abort(&self) {
        let mut state = lock(&self.state);
        state.is_aborted = true;
        state.discard();
        state.wake();
        if let Some(stream) = state.stream.take() {
            stream.wake();
        }
    }

    /// `abort`, if not everything is sent by then.
    pub fn abort_after(self: &Arc<Self>, limit: Duration) {
        if !self.is_left() {
            let (answer, timer) = (self.clone(), self.handle.sleep(limit));
            self.handle.spawn(async move {
                timer.await;
                answer.abort();
            });
        }
    }

    pub fn is_finished(&self) -> bool {
        lock(&self.state).is_finished
    }

    pub fn is_left(&self) -> bool {
        lock(&self.state).is_left
    }

    // For the connection

    /// The head, and the body if it is whole.
    pub fn poll_head(&self, context: &mut Context<'_>) -> Poll<Result<(Parts, Option<Bytes>), Aborted>> {
        let mut state = lock(&self.state);
        if state.is_aborted {
            return Poll::Ready(Err(Aborted));
        }
        let head = if state.is_held { None } else { state.head.take() };
        let Some(head) = head else {
            state.sender = Some(context.waker().clone());
            return Poll::Pending;
        };
        Poll::Ready(Ok((head, state.whole.take())))
    }

    /// Whether it was aborted; if not, the task is woken when it is.
    pub fn poll_aborted(&self, context: &mut Context<'_>) -> bool {
        let mut state = lock(&self.state);
        state.stream = Some(context.waker().clone());
        state.is_aborted
    }

    pub fn half_close(&self) {
        self.events.push(Event::HalfClosed(self.id));
    }

    /// The connection sends no more of it.
    pub fn leave(&self) {
        let mut state = lock(&self.state);
        let is_over = state.is_finished && state.waiting_bytes() == 0;
        if std::mem::replace(&mut state.is_left, true) {
            return;
        }
        state.discard();
        drop(state);
        if !is_over {
            self.events.push(Event::Left(self.id));
        }
    }

    /// The next part. While the connection is blocked it takes none, because what it takes is in memory beside what
    /// waits; whoever waits to write polls it again.
    pub fn take(
        &self,
        context: &mut Context<'_>,
        is_blocked: bool,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        let mut state = lock(&self.state);
        if state.is_aborted {
            return Poll::Ready(Some(Err(Aborted)));
        }
        if is_blocked {
            state.sender = Some(context.waker().clone());
            return Poll::Pending;
        }
        if state.waiting_bytes() > 0 {
            state.taken_at = Some(Instant::now());
            state.parts = state.parts.saturating_add(1);
            state.is_timed = false;
            let part = state.next_part();
            if state.wants_room && state.waiting_bytes() <= CAPACITY / 2 {
                state.wants_room = false;
                self.events.push(Event::Room(self.id));
            }
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        if let Some(trailers) = state.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if state.is_finished {
            return Poll::Ready(None);
        }
        state.sender = Some(context.waker().clone());
        Poll::Pending
    }

    pub fn is_end(&self) -> bool {
        let state = lock(&self.state);
        state.is_finished && state.waiting_bytes() == 0 && state.trailers.is_none()
    }
}

/// The producer has aborted the answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer was aborted")]
pub struct Aborted;
