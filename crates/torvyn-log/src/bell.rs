//! Wakes the carrier, which waits for work on a thread of its own, or as a task of an event loop.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

type Listener = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub struct Bell {
    state: Mutex<State>,
    changed: Condvar,
    listener: OnceLock<Listener>,
}

#[derive(Debug, Default)]
struct State {
    is_rung: bool,
    is_waiting: bool,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls this function whenever it rings, instead of waking a thread. Only the first one counts.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    pub fn ring(&self) {
        if let Some(listener) = self.listener.get() {
            listener();
            return;
        }
        let mut state = self.lock();
        state.is_rung = true;
        if state.is_waiting {
            self.changed.notify_all();
        }
    }

    /// Waits until it rings. False when the time has passed before.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        state.is_waiting = true;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, timeout, |state| !state.is_rung)
            .unwrap_or_else(PoisonError::into_inner);
        state.is_waiting = false;
        std::mem::take(&mut state.is_rung)
    }
}
