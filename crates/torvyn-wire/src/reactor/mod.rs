//! A reactor that another event loop drives: it polls sockets, timers and tasks when it is told to.
//!
//! Its descriptor is readable when it has something to do, so that the outer loop (asyncio) waits for it like for any
//! socket. Everything runs on the thread that calls it; a waker may be used on any thread.

mod readiness;
mod tasks;
mod timers;
mod within;

use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Registry, Token};

use readiness::Sources;
pub use readiness::{Interest, Readiness};
pub use tasks::lock;
use tasks::{Ready, Tasks};
use timers::Timers;
pub use timers::{Sleeper, WireTimer};
pub use within::within;

const ALARM: Token = Token(usize::MAX);
const EVENTS: usize = 256;
/// A turn ends after that time, so that the outer loop can do its other work.
pub const TURN: Duration = Duration::from_micros(500);

/// What tasks use: it registers sockets, starts tasks and sets timers.
pub struct Handle {
    registry: Registry,
    sources: Sources,
    ready: Arc<Ready>,
    timers: Arc<Timers>,
}

impl Handle {
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.ready.spawn(Box::pin(task));
    }

    pub fn sleep_until(&self, deadline: Instant) -> Sleeper {
        Sleeper::new(self.timers.clone(), deadline)
    }

    pub fn sleep(&self, duration: Duration) -> Sleeper {
        self.sleep_until(Instant::now() + duration)
    }

    /// Wakes a task at that time.
    pub fn wake_at(&self, deadline: Instant, task: Waker) {
        self.timers.add(deadline, None, task);
    }

    /// The timer that hyper asks for.
    pub fn timer(&self) -> WireTimer {
        WireTimer(self.timers.clone())
    }

    /// Readiness of a socket, until the returned value is dropped.
    pub fn watch(
        self: &Arc<Self>,
        source: &mut impl mio::event::Source,
        interest: mio::Interest,
    ) -> io::Result<Readiness> {
        let (token, state) = self.sources.add();
        if let Err(error) = self.registry.register(source, Token(token), interest) {
            self.sources.remove(token);
            return Err(error);
        }
        Ok(Readiness::new(self.clone(), token, state))
    }

    /// Makes the descriptor readable, so that the outer loop runs a turn. From any thread.
    pub fn ring(&self) {
        self.ready.ring();
    }

    pub(crate) fn unwatch(&self, token: usize) {
        self.sources.remove(token);
    }
}

pub struct Reactor {
    poll: Poll,
    events: Events,
    tasks: Tasks,
    handle: Arc<Handle>,
}

impl Reactor {
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let ready = Arc::new(Ready::new(mio::Waker::new(poll.registry(), ALARM)?));
        let timers = Arc::new(Timers::new(ready.clone()));
        let registry = poll.registry().try_clone()?;
        let handle = Arc::new(Handle { registry, sources: Sources::default(), ready, timers });
        Ok(Self { poll, events: Events::with_capacity(EVENTS), tasks: Tasks::default(), handle })
    }

    pub fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Looks at the sockets and the clock, and runs what is ready. Returns when the next timer is due.
    pub fn turn(&mut self) -> io::Result<Option<Instant>> {
        self.wait(Some(Duration::ZERO))?;
        self.handle.timers.fire(Instant::now());
        self.run_ready();
        Ok(self.handle.timers.arm())
    }

    /// Runs what is ready, without looking at the sockets.
    pub fn run_ready(&mut self) {
        self.tasks.run(&self.handle.ready, TURN);
    }

    /// Waits until a socket is ready, the alarm rings or the time is over.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
        self.handle.ready.watching(|| {
            for event in &self.events {
                if event.token() != ALARM {
                    self.handle.sources.notify(event);
                }
            }
        });
        Ok(())
    }

    /// Runs `work`, whose wake-ups need no alarm because `run_woken` follows.
    pub fn before_run<T>(&self, work: impl FnOnce() -> T) -> T {
        self.handle.ready.watching(work)
    }

    /// Runs what `before_run` has woken. If other tasks were left to the next turn, it waits there behind them.
    pub fn run_woken(&mut self) {
        if !self.tasks.is_behind() {
            self.run_ready();
        }
    }
}

impl AsRawFd for Reactor {
    fn as_raw_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }
}
