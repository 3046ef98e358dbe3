//! What is known of one connection: its requests, since when it is idle, and how it ends.

pub mod admission;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Instant;

use slab::Slab;

use crate::answer::Answer;
use crate::options::Options;
use crate::reactor::{Interest, lock};
use crate::socket::Line;

struct State {
    answers: Slab<Arc<Answer>>,
    /// How many of them wait for the body of their request.
    receiving: usize,
    requests: u64,
    idle_since: Instant,
    /// What had arrived when it became idle.
    received_before: u64,
    /// When the first byte of the next head was noticed.
    head_since: Option<Instant>,
    is_half_closed: bool,
    has_calls: bool,
    is_stopping: bool,
    /// It was opened while the server drained: its first request is its last.
    is_late: bool,
    is_reset: bool,
    task: Option<Waker>,
}

pub struct Connection {
    pub line: Arc<Line>,
    pub peer: SocketAddr,
    /// Whether it has brought a request with a valid key.
    is_known: AtomicBool,
    state: Mutex<State>,
}

/// How easily a connection is closed to make room for another: the lower, the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    UnknownIdle,
    /// Its requests are not complete yet.
    UnknownReceiving,
    UnknownAnswered,
    KnownIdle,
}

impl Connection {
    /// `is_late`: it is closed after its first answer.
    pub fn new(line: Arc<Line>, peer: SocketAddr, is_late: bool) -> Arc<Self> {
        let state = State {
            answers: Slab::new(),
            receiving: 0,
            requests: 0,
            idle_since: Instant::now(),
            received_before: 0,
            head_since: None,
            is_half_closed: false,
            has_calls: false,
            is_stopping: false,
            is_late,
            is_reset: false,
            task: None,
        };
        Arc::new(Self { line, peer, is_known: AtomicBool::new(false), state: Mutex::new(state) })
    }

    /// A request begins; it ends when the returned value is dropped.
    pub fn enter(self: &Arc<Self>, answer: Arc<Answer>) -> InFlight {
        let mut state = lock(&self.state);
        state.requests += 1;
        state.head_since = None;
        state.receiving += 1;
        if state.is_late
            && !std::mem::replace(&mut state.is_stopping, true)
            && let Some(task) = state.task.take()
        {
            task.wake();
        }
        let key = state.answers.insert(answer.clone());
        InFlight { connection: self.clone(), answer, key, is_receiving: true }
    }

    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// False: it was known already.
    pub fn recognise(&self) -> bool {
        !self.is_known.swap(true, Ordering::AcqRel)
    }

    /// Closes it without sending the rest.
    pub fn reset(&self) {
        self.change(|state| state.is_reset = true);
    }

    /// Closes it when its requests are answered.
    pub fn stop(&self) {
        self.change(|state| state.is_stopping = true);
    }

    /// From now on it counts as a connection for gRPC.
    pub fn carry_calls(&self) {
        lock(&self.state).has_calls = true;
    }

    /// `stop`, unless it carries gRPC: such a client learns from the server's health that it drains.
    pub fn drain(&self) {
        self.change(|state| state.is_stopping |= !state.has_calls);
    }

    /// What closing it would cost, and since when it has been like that; None: it is for a known caller, or over.
    pub fn worth(&self) -> Option<(Worth, Instant)> {
        let state = lock(&self.state);
        let is_idle = state.answers.is_empty();
        let worth = match self.is_known() {
            _ if state.is_reset => return None,
            true if is_idle => Worth::KnownIdle,
            true => return None,
            false if is_idle => Worth::UnknownIdle,
            false if state.receiving == state.answers.len() => Worth::UnknownReceiving,
            false => Worth::UnknownAnswered,
        };
        Some((worth, state.idle_since))
    }

    /// Whether it must end now: it was reset by either side.
    pub fn is_over(&self, context: &mut Context<'_>) -> bool {
        let mut state = lock(&self.state);
        if !state.task.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            state.task = Some(context.waker().clone());
        }
        if state.is_reset {
            self.line.reset_on_close();
        }
        state.is_reset || self.line.readiness().is_broken()
    }

    pub fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// Tells the requests when the client sends no more, once.
    pub fn notice_half_close(&self, context: &mut Context<'_>) {
        let readiness = self.line.readiness();
        // Always: after the client sends no more, it may still reset the connection.
        readiness.wake_on(Interest::Close, context);
        if !readiness.is_read_closed() {
            return;
        }
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.is_half_closed, true) {
            state.answers.iter().for_each(|(_, answer)| answer.half_close());
        }
    }

    pub fn is_half_closed(&self) -> bool {
        lock(&self.state).is_half_closed
    }

    /// Whether it has waited too long for a request. A head must be complete soon after its first byte; between two
    /// requests a client may take its time.
    pub fn is_expired(&self, options: &Options, is_http2: bool, now: Instant) -> bool {
        let received = self.line.received();
        let mut state = lock(&self.state);
        if !state.answers.is_empty() {
            return false;
        }
        if state.requests == 0 {
            return now - state.idle_since >= options.head_timeout;
        }
        if !is_http2 && received > state.received_before {
            // Noticed late by at most the time between two looks.
            let since = *state.head_since.get_or_insert(now);
            return now - since >= options.head_timeout;
        }
        now - state.idle_since >= options.keep_alive
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        if let Some(task) = state.task.take() {
            task.wake();
        }
    }
}

/// A request that is being answered.
pub struct InFlight {
    connection: Arc<Connection>,
    pub answer: Arc<Answer>,
    key: usize,
    is_receiving: bool,
}

impl InFlight {
    /// Whether the connection waits until it can write.
    pub fn is_blocked(&self) -> bool {
        self.connection.line.is_blocked()
    }

    /// The body of the request is complete, or will not be.
    pub fn received(&mut self) {
        if std::mem::replace(&mut self.is_receiving, false) {
            lock(&self.connection.state).receiving -= 1;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.received();
        self.answer.leave();
        let mut state = lock(&self.connection.state);
        state.answers.remove(self.key);
        if state.answers.is_empty() {
            state.idle_since = Instant::now();
            state.received_before = self.connection.line.received();
            state.head_since = None;
            // An HTTP/2 connection that drains ends with its last stream.
            if state.is_stopping
                && let Some(task) = state.task.take()
            {
                task.wake();
            }
        }
    }
}
