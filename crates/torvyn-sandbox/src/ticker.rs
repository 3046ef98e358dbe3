//! The ticker: advances an engine's epoch every 10 ms while calls are in flight, so that deadlines are looked at.
//!
//! It starts with the first call and sleeps when there has been none for a while: an idle program is not woken.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

pub const TICK: Duration = Duration::from_millis(10);

/// Ticks without a call before it sleeps; going to sleep after every call would cost the next one a wake-up.
const PATIENCE: u32 = 100;

pub struct Ticker {
    engine: Engine,
    in_flight: AtomicUsize,
    asleep: AtomicBool,
    over: AtomicBool,
    starting: Mutex<()>,
    thread: OnceLock<Thread>,
}

/// Lives as long as a call.
pub struct InFlight<'a>(&'a Ticker);

impl Ticker {
    pub fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self {
            engine,
            in_flight: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            over: AtomicBool::new(false),
            starting: Mutex::new(()),
            thread: OnceLock::new(),
        })
    }

    #[inline]
    pub fn enter(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
        InFlight(self)
    }

    /// Starts the thread unless it runs. Without it no deadline would pass, so no call may be made.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        // One at a time: a second ticker would halve all deadlines.
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.thread.get().is_none() {
            let weak = Arc::downgrade(self);
            let builder = thread::Builder::new().name("torvyn-ticker".into());
            let spawned = builder.spawn(move || run(&weak))?;
            let _ = self.thread.set(spawned.thread().clone());
        }
        Ok(())
    }

    fn tick(&self, idle: u32) -> u32 {
        self.engine.increment_epoch();
        if self.in_flight.load(Ordering::SeqCst) > 0 {
            return 0;
        }
        if idle < PATIENCE {
            return idle + 1;
        }
        self.asleep.store(true, Ordering::SeqCst);
        while self.in_flight.load(Ordering::SeqCst) == 0 && !self.over.load(Ordering::Relaxed) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
        0
    }

    /// Ends the thread; for the engine's own end.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

fn run(weak: &Weak<Ticker>) {
    let mut idle = 0;
    loop {
        thread::sleep(TICK);
        let Some(ticker) = weak.upgrade() else { return };
        if ticker.over.load(Ordering::Relaxed) {
            return;
        }
        idle = ticker.tick(idle);
    }
}

impl Drop for InFlight<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}
