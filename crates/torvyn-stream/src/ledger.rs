//! The ledger of one node: what it allocated, what is still in use, and every copy of payload bytes with its reason.

use crate::counter::Counter;

/// Why payload bytes were copied across a component's border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyReason {
    /// A native stage read a host object as bytes.
    HostToNative = 0,
    /// A host component read native bytes.
    NativeToHost = 1,
    /// A sandboxed component read a payload into its own memory.
    HostToGuest = 2,
    /// A sandboxed component wrote a payload out of its own memory.
    GuestToHost = 3,
    /// A sandboxed component copied a payload inside the host, to write into the copy.
    HostToHost = 4,
}

impl CopyReason {
    pub const ALL: [CopyReason; 5] = [
        CopyReason::HostToNative,
        CopyReason::NativeToHost,
        CopyReason::HostToGuest,
        CopyReason::GuestToHost,
        CopyReason::HostToHost,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CopyReason::HostToNative => "host-to-native",
            CopyReason::NativeToHost => "native-to-host",
            CopyReason::HostToGuest => "host-to-guest",
            CopyReason::GuestToHost => "guest-to-host",
            CopyReason::HostToHost => "host-to-host",
        }
    }
}

/// The matches that a guard found in the text that passed it.
#[derive(Debug, Default)]
pub struct Findings {
    pub matches: Counter,
    /// Characters of matches that were sent before they were known to be part of one.
    pub exposed_chars: Counter,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub allocations: Counter,
    pub releases: Counter,
    pub live_bytes: Counter,
    /// Bytes that a component reports as buffered, such as an aggregator's unfinished sentence.
    pub held_bytes: Counter,
    pub peak_bytes: Counter,
    pub peak_held_bytes: Counter,
    pub findings: Findings,
    copies: [Counter; CopyReason::ALL.len()],
    copied_bytes: Counter,
}

impl Ledger {
    #[inline]
    pub fn allocate(&self, bytes: u64) {
        self.allocate_many(1, bytes);
    }

    #[inline]
    pub fn release(&self, bytes: u64) {
        self.release_many(1, bytes);
    }

    /// Several payloads at once.
    #[inline]
    pub fn allocate_many(&self, payloads: u64, bytes: u64) {
        self.allocations.add(payloads);
        self.live_bytes.add(bytes);
        self.peak_bytes.raise_to(self.live_bytes.get() + self.held_bytes.get());
    }

    #[inline]
    pub fn release_many(&self, payloads: u64, bytes: u64) {
        self.releases.add(payloads);
        self.live_bytes.subtract(bytes);
    }

    #[inline]
    pub fn hold(&self, bytes: u64) {
        self.held_bytes.set(bytes);
        self.peak_held_bytes.raise_to(bytes);
        self.peak_bytes.raise_to(self.live_bytes.get() + bytes);
    }

    #[inline]
    pub fn copy(&self, reason: CopyReason, bytes: u64) {
        self.copies[reason as usize].add(1);
        self.copied_bytes.add(bytes);
    }

    /// Several copies at once, as a sandboxed call made them.
    #[inline]
    pub fn copy_many(&self, reason: CopyReason, copies: u64, bytes: u64) {
        self.copies[reason as usize].add(copies);
        self.copied_bytes.add(bytes);
    }

    pub fn copies(&self, reason: CopyReason) -> u64 {
        self.copies[reason as usize].get()
    }

    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes.get()
    }

    /// All bytes that count against the node's budget.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.live_bytes.get() + self.held_bytes.get()
    }

    pub fn live(&self) -> u64 {
        self.allocations.get() - self.releases.get()
    }
}
