//! Clocks and random numbers for reproducible runs of a guest. Both derive from a seed, never from the machine.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand_core::TryRng;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// The start of the wall clock: the first second of 2000.
const START: Duration = Duration::from_secs(946_684_800);
/// How far each reading advances a clock, so that a guest that waits for it does not wait for ever.
const LOOK_NS: u64 = 1_000;

/// A clock that advances when it is read and when the guest sleeps. Sleeping takes no real time.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Advances as if the guest had slept.
    pub fn sleep(&self, duration_ns: u64) {
        let later = |now: u64| Some(now.saturating_add(duration_ns));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    pub fn sleep_until(&self, instant_ns: u64) {
        self.0.fetch_max(instant_ns, Ordering::Relaxed);
    }

    fn look(&self) -> u64 {
        self.0.fetch_add(LOOK_NS, Ordering::Relaxed)
    }
}

impl HostMonotonicClock for Clock {
    fn resolution(&self) -> u64 {
        LOOK_NS
    }

    fn now(&self) -> u64 {
        self.look()
    }
}

impl HostWallClock for Clock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(LOOK_NS)
    }

    fn now(&self) -> Duration {
        START.saturating_add(Duration::from_nanos(self.look()))
    }
}

/// An endless stream of bytes derived from a seed and a name.
struct Stream(blake3::OutputReader);

impl Stream {
    fn new(seed: u64, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(&format!("torvyn deterministic {name}"));
        hasher.update(&seed.to_le_bytes());
        Self(hasher.finalize_xof())
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill(&mut bytes);
        bytes
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.bytes()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.bytes()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(bytes);
        Ok(())
    }
}

/// Replaces the guest's clocks and random numbers.
pub fn install(wasi: &mut WasiCtxBuilder, seed: u64) -> Clock {
    let clock = Clock::default();
    wasi.wall_clock(clock.clone()).monotonic_clock(clock.clone());
    wasi.secure_random(Stream::new(seed, "crypto")).insecure_random(Stream::new(seed, "insecure"));
    wasi.insecure_random_seed(u128::from_le_bytes(Stream::new(seed, "seed").bytes()));
    clock
}
