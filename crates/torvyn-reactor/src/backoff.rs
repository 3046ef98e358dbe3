//! The pauses before retries: each is random and twice as long as the one before at most, up to a limit.
//!
//! Flows that fail together, because one server is away, must not come back together.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;

use crate::clock::Clock;

/// The pauses of a node: the first one at its longest, and the longest of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Backoff {
    pub first_ns: u64,
    pub max_ns: u64,
}

impl Backoff {
    /// The longest pause before the retry after so many others.
    fn longest_ns(self, attempt: u32) -> u64 {
        let doubled_ns = self.first_ns.saturating_mul(1 << attempt.min(62));
        doubled_ns.min(self.max_ns.max(self.first_ns))
    }
}

/// Random parts of pauses, by the generator SplitMix64.
#[derive(Debug)]
pub struct Jitter(Option<NonZeroU64>);

impl Jitter {
    /// A clock that is moved by hand has none: a test gets every pause in its full length.
    pub fn new(clock: &Clock) -> Self {
        let seed = (!clock.is_manual()).then(|| RandomState::new().hash_one(0));
        Self(seed.and_then(|seed| NonZeroU64::new(seed.max(1))))
    }

    /// A pause between 0 and the longest one, before the retry after `attempt` others.
    pub fn pause_ns(&mut self, backoff: Backoff, attempt: u32) -> u64 {
        let longest_ns = backoff.longest_ns(attempt);
        let Some(state) = &mut self.0 else { return longest_ns };
        let mut mixed = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        *state = NonZeroU64::new(mixed).unwrap_or(NonZeroU64::MIN);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * (u128::from(longest_ns) + 1)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { first_ns: 100, max_ns: 1_000 };

    #[test]
    fn the_longest_pause_doubles_up_to_the_limit() {
        let longest = [0, 1, 2, 3, 4, 60, u32::MAX].map(|attempt| BACKOFF.longest_ns(attempt));
        assert_eq!(longest, [100, 200, 400, 800, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn a_first_pause_above_the_limit_is_kept() {
        let backoff = Backoff { first_ns: 5_000, max_ns: 1_000 };
        assert_eq!([0, 9].map(|attempt| backoff.longest_ns(attempt)), [5_000, 5_000]);
    }

    #[test]
    fn pauses_are_spread_over_their_whole_length() {
        let mut jitter = Jitter::new(&Clock::monotonic(0));
        let pauses: Vec<u64> = (0..4_000).map(|_| jitter.pause_ns(BACKOFF, 0)).collect();
        let quarters =
            [0, 25, 50, 75].map(|from| pauses.iter().filter(|ns| (from..from + 25).contains(*ns)).count());
        assert!(pauses.iter().all(|ns| *ns <= 100));
        assert!(quarters.iter().all(|count| *count > 800), "{quarters:?}");
    }

    #[test]
    fn two_flows_do_not_pause_alike() {
        let pauses = || {
            let mut jitter = Jitter::new(&Clock::monotonic(0));
            [0, 1, 2, 3]
                .map(|attempt| jitter.pause_ns(Backoff { first_ns: 1 << 40, max_ns: 1 << 50 }, attempt))
        };
        assert_ne!(pauses(), pauses());
    }

    #[test]
    fn a_manual_clock_gets_the_full_pause() {
        let mut jitter = Jitter::new(&Clock::manual(std::sync::Arc::default()));
        assert_eq!([0, 1].map(|attempt| jitter.pause_ns(BACKOFF, attempt)), [100, 200]);
    }
}
