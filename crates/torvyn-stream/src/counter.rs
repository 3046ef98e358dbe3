//! Counters with one writer and many readers. The thread that runs the turn adds, any thread reads, and nothing locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds without a locked instruction: only the thread that owns the flow writes.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    #[inline]
    pub fn subtract(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(amount), Relaxed);
    }

    #[inline]
    pub fn raise_to(&self, value: u64) {
        if value > self.0.load(Relaxed) {
            self.0.store(value, Relaxed);
        }
    }

    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
