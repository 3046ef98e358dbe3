//! Which sockets can be read or written, as the kernel reports it: once per change.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use mio::event::Event;
use slab::Slab;

use super::Handle;
use super::tasks::lock;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
    /// The other side sends no more, or is gone.
    Close,
}

impl Interest {
    fn flags(self) -> u8 {
        match self {
            Self::Read => READABLE,
            Self::Write => WRITABLE,
            Self::Close => READ_CLOSED | BROKEN,
        }
    }
}

const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
/// The other side sends no more.
const READ_CLOSED: u8 = 4;
/// Nothing can be sent any more: the connection was reset, or is closed in both directions.
const BROKEN: u8 = 8;

#[derive(Default)]
pub struct SourceState {
    flags: AtomicU8,
    wakers: [Mutex<Option<Waker>>; 3],
}

impl SourceState {
    fn waker(&self, interest: Interest) -> &Mutex<Option<Waker>> {
        &self.wakers[interest as usize]
    }
}

#[derive(Default)]
pub struct Sources(Mutex<Slab<Arc<SourceState>>>);

impl Sources {
    pub fn add(&self) -> (usize, Arc<SourceState>) {
        let state = Arc::new(SourceState::default());
        (lock(&self.0).insert(state.clone()), state)
    }

    pub fn remove(&self, token: usize) {
        lock(&self.0).try_remove(token);
    }

    pub fn notify(&self, event: &Event) {
        let Some(state) = lock(&self.0).get(event.token().0).cloned() else { return };
        let broken = event.is_error() || event.is_write_closed();
        let flags = [
            (event.is_readable() || broken, READABLE),
            (event.is_writable() || broken, WRITABLE),
            (event.is_read_closed(), READ_CLOSED),
            (broken, BROKEN),
        ];
        let set = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        state.flags.fetch_or(set, Ordering::AcqRel);
        for interest in [Interest::Read, Interest::Write, Interest::Close] {
            if set & interest.flags() != 0
                && let Some(waker) = lock(state.waker(interest)).take()
            {
                waker.wake();
            }
        }
    }
}

/// The readiness of one socket.
pub struct Readiness {
    handle: Arc<Handle>,
    token: usize,
    state: Arc<SourceState>,
}

impl Readiness {
    pub(super) fn new(handle: Arc<Handle>, token: usize, state: Arc<SourceState>) -> Self {
        Self { handle, token, state }
    }

    /// Ready: try the system call; if it would block, call `clear` and this again.
    pub fn poll(&self, interest: Interest, context: &mut Context<'_>) -> Poll<()> {
        if self.is_ready(interest) {
            return Poll::Ready(());
        }
        self.wake_on(interest, context);
        if self.is_ready(interest) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Wakes the task when that changes.
    pub fn wake_on(&self, interest: Interest, context: &mut Context<'_>) {
        let mut waker = lock(self.state.waker(interest));
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    pub fn clear(&self, interest: Interest) {
        self.state.flags.fetch_and(!interest.flags(), Ordering::AcqRel);
    }

    fn is_ready(&self, interest: Interest) -> bool {
        self.state.flags.load(Ordering::Acquire) & interest.flags() != 0
    }

    /// Whether the other side has said that it sends no more.
    pub fn is_read_closed(&self) -> bool {
        self.state.flags.load(Ordering::Acquire) & READ_CLOSED != 0
    }

    /// Whether a write may succeed.
    pub fn is_writable(&self) -> bool {
        self.is_ready(Interest::Write)
    }

    /// Whether nothing can be sent any more.
    pub fn is_broken(&self) -> bool {
        self.state.flags.load(Ordering::Acquire) & BROKEN != 0
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        self.handle.unwatch(self.token);
    }
}
