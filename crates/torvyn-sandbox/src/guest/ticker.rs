//! The ticker: advances an engine's epoch every 10 ms while calls are in flight, so that deadlines are checked.
//!
//! It starts with the first call and sleeps after a while without any, so an idle program is not woken. It costs a call
//! two plain loads: every running call reports itself again at each tick, so nothing counts calls.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

pub const TICK: Duration = Duration::from_millis(10);

/// Ticks without a call before it sleeps. Sleeping after every call would cost the next one a wake-up.
const PATIENCE: u32 = 100;

pub struct Ticker {
    engine: Engine,
    /// A call started, or was still running, since the last tick.
    used: AtomicBool,
    asleep: AtomicBool,
    over: AtomicBool,
    starting: Mutex<()>,
    thread: OnceLock<Thread>,
}

impl Ticker {
    pub fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self {
            engine,
            used: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            over: AtomicBool::new(false),
            starting: Mutex::new(()),
            thread: OnceLock::new(),
        })
    }

    /// Reports a call that starts, or is still running when a tick has passed.
    #[inline]
    pub fn note(&self) {
        // Usually true already: a line that is only read stays in every core's cache.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
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
        if self.used.swap(false, Ordering::SeqCst) {
            return 0;
        }
        if idle < PATIENCE {
            return idle + 1;
        }
        self.asleep.store(true, Ordering::SeqCst);
        // A call that started before it could see that is seen after this.
        thread::sleep(TICK);
        while !self.used.load(Ordering::SeqCst) && !self.over.load(Ordering::Relaxed) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
        0
    }

    /// Stops the thread, when the engine ends.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.wake();
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
