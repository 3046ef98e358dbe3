//! Counters with one writer and many readers. The thread that runs the turn adds, any thread reads, and nothing locks.

use std::sync::OnceLock;
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

/// Counters that most nodes never need: their memory is allocated with the first count.
#[derive(Debug)]
pub struct Rare<T>(OnceLock<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Default> Rare<T> {
    /// The counters, for whoever counts.
    #[inline]
    pub fn count(&self) -> &T {
        self.0.get_or_init(Box::default)
    }

    /// The counters, if anything was counted.
    #[inline]
    pub fn counted(&self) -> Option<&T> {
        self.0.get().map(|counters| &**counters)
    }

    /// The value of one of them.
    pub fn read(&self, counter: impl Fn(&T) -> &Counter) -> u64 {
        self.counted().map_or(0, |counters| counter(counters).get())
    }

    pub fn heap_bytes(&self) -> usize {
        self.counted().map_or(0, size_of_val)
    }
}
