//! The ledger of one node: what it allocated, what is still in use, and every copy of payload bytes with its reason.

use crate::counter::{Counter, Rare};

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

#[derive(Debug, Default)]
pub struct Ledger {
    pub allocations: Counter,
    pub releases: Counter,
    pub live_bytes: Counter,
    pub peak_bytes: Counter,
    more: Rare<More>,
}

/// What few nodes have: copies, and what fewer of them have.
#[derive(Debug, Default)]
struct More {
    copies: [Counter; CopyReason::ALL.len()],
    copied_bytes: Counter,
    text: Rare<Text>,
}

/// Of components that buffer or search text.
#[derive(Debug, Default)]
struct Text {
    /// Bytes that a component reports as buffered, such as an aggregator's unfinished sentence.
    held_bytes: Counter,
    peak_held_bytes: Counter,
    /// The matches that a guard found in the text that passed it.
    matches: Counter,
    /// Characters of matches that were sent before they were known to be part of one.
    exposed_chars: Counter,
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
        self.peak_bytes.raise_to(self.used_bytes());
    }

    #[inline]
    pub fn release_many(&self, payloads: u64, bytes: u64) {
        self.releases.add(payloads);
        self.live_bytes.subtract(bytes);
    }

    #[inline]
    pub fn hold(&self, bytes: u64) {
        let counted = self.text();
        if bytes > 0 || counted.is_some() {
            let text = counted.unwrap_or_else(|| self.more.count().text.count());
            text.held_bytes.set(bytes);
            text.peak_held_bytes.raise_to(bytes);
            self.peak_bytes.raise_to(self.live_bytes.get() + bytes);
        }
    }

    #[inline]
    pub fn copy(&self, reason: CopyReason, bytes: u64) {
        self.copy_many(reason, 1, bytes);
    }

    /// Several copies at once, as a sandboxed call made them.
    #[inline]
    pub fn copy_many(&self, reason: CopyReason, copies: u64, bytes: u64) {
        let more = self.more.count();
        more.copies[reason as usize].add(copies);
        more.copied_bytes.add(bytes);
    }

    pub fn copies(&self, reason: CopyReason) -> u64 {
        self.more.read(|more| &more.copies[reason as usize])
    }

    pub fn copied_bytes(&self) -> u64 {
        self.more.read(|more| &more.copied_bytes)
    }

    #[inline]
    fn text(&self) -> Option<&Text> {
        self.more.counted()?.text.counted()
    }

    fn read_text(&self, counter: impl Fn(&Text) -> &Counter) -> u64 {
        self.text().map_or(0, |text| counter(text).get())
    }

    #[inline]
    pub fn held_bytes(&self) -> u64 {
        self.read_text(|text| &text.held_bytes)
    }

    pub fn peak_held_bytes(&self) -> u64 {
        self.read_text(|text| &text.peak_held_bytes)
    }

    /// Counts matches of a guard.
    pub fn note_findings(&self, matches: u64, exposed_chars: u64) {
        let text = self.more.count().text.count();
        text.matches.add(matches);
        text.exposed_chars.add(exposed_chars);
    }

    /// Matches, and characters of them that were sent before they were known to be part of one.
    pub fn findings(&self) -> (u64, u64) {
        (self.read_text(|text| &text.matches), self.read_text(|text| &text.exposed_chars))
    }

    /// All bytes that count against the node's budget.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.live_bytes.get() + self.held_bytes()
    }

    pub fn live(&self) -> u64 {
        self.allocations.get() - self.releases.get()
    }

    pub fn heap_bytes(&self) -> usize {
        self.more.heap_bytes() + self.more.counted().map_or(0, |more| more.text.heap_bytes())
    }
}
