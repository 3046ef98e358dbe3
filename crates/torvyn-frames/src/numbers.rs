//! The numbers of the frames of an answer.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default, Debug)]
pub struct Numbers(AtomicU64);

impl Numbers {
    /// The next number, or the given one; counting continues from there.
    pub fn number(&self, seq: Option<u64>) -> u64 {
        match seq {
            Some(seq) => {
                self.0.store(seq, Ordering::Relaxed);
                seq
            }
            None => self.0.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    /// The number of the last frame; frames count from 1.
    pub fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
