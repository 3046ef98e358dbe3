//! Denials: what a guest requested and was not granted. All are counted; the notable ones go to the audit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The kind under which a denial is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Connect,
    Listen,
    Datagram,
    Lookup,
    Http,
    Random,
    /// More open files and connections than a guest may have, or than the process can spare.
    Descriptor,
}

impl Kind {
    pub const ALL: [Kind; 9] = [
        Self::Read,
        Self::Write,
        Self::Connect,
        Self::Listen,
        Self::Datagram,
        Self::Lookup,
        Self::Http,
        Self::Random,
        Self::Descriptor,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "filesystem:read",
            Self::Write => "filesystem:write",
            Self::Connect => "network:tcp-connect",
            Self::Listen => "network:tcp-listen",
            Self::Datagram => "network:udp",
            Self::Lookup => "network:lookup",
            Self::Http => "network:http-outgoing",
            Self::Random => "random:crypto",
            Self::Descriptor => "descriptors",
        }
    }
}

/// One denial for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub kind: Kind,
    /// What the guest requested, in its own words: a path, or a host and a port. Untrusted, and cut if long.
    pub request: String,
    /// How many of its kind there were, including this one.
    pub count: u64,
    /// How many of its kind were counted and not reported since the last report.
    pub suppressed: u64,
}

/// Receives denials, after the call in which they happened.
pub type Auditor = Arc<dyn Fn(Denial) + Send + Sync>;

/// The first of each kind are reported one by one; then only the 128th, the 256th and so on, so an endless series
/// writes only a few lines more.
const FIRST_REPORTS: u64 = 64;
const REQUEST_MAX: usize = 512;

struct PendingAudit {
    denials: Vec<Denial>,
    reported: [u64; Kind::ALL.len()],
}

/// The denials of one node, across all its instances.
pub struct Denials {
    counts: [AtomicU64; Kind::ALL.len()],
    is_waiting: AtomicBool,
    waiting: Mutex<PendingAudit>,
    auditor: Auditor,
}

impl Denials {
    pub fn new(auditor: Auditor) -> Self {
        let waiting = Mutex::new(PendingAudit { denials: Vec::new(), reported: Default::default() });
        Self { counts: Default::default(), is_waiting: AtomicBool::new(false), waiting, auditor }
    }

    pub fn note(&self, kind: Kind, request: impl FnOnce() -> String) {
        let count = self.counts[kind as usize].fetch_add(1, Ordering::Relaxed) + 1;
        if count > FIRST_REPORTS && !count.is_power_of_two() {
            return;
        }
        let mut request = request();
        if request.len() > REQUEST_MAX {
            let end = (0..=REQUEST_MAX).rev().find(|at| request.is_char_boundary(*at));
            request.truncate(end.unwrap_or(0));
            request.push_str("...");
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let suppressed = (count - 1).saturating_sub(waiting.reported[kind as usize]);
        waiting.reported[kind as usize] = count;
        waiting.denials.push(Denial { kind, request, count, suppressed });
        self.is_waiting.store(true, Ordering::Release);
    }

    /// The count of each kind; kinds without denials are left out.
    pub fn counts(&self) -> Vec<(Kind, u64)> {
        let count = |kind: Kind| (kind, self.counts[kind as usize].load(Ordering::Relaxed));
        Kind::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
    }

    /// Reports to the auditor. Called when no call is in flight, because it may take a while.
    #[inline]
    pub fn deliver(&self) {
        if self.is_waiting.load(Ordering::Acquire) {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        self.is_waiting.store(false, Ordering::Release);
        let reported = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut waiting.denials)
        };
        for denial in reported {
            (self.auditor)(denial);
        }
    }
}

impl Default for Denials {
    /// Counts without reporting.
    fn default() -> Self {
        Self::new(Arc::new(|_| {}))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn reported(count: u64, request: &str) -> Vec<Denial> {
        let seen: Arc<Mutex<Vec<Denial>>> = Arc::default();
        let keeps = seen.clone();
        let denials = Denials::new(Arc::new(move |denial| keeps.lock().unwrap().push(denial)));
        for _ in 0..count {
            denials.note(Kind::Read, || request.to_owned());
            denials.deliver();
        }
        assert_eq!(denials.counts(), [(Kind::Read, count)]);
        seen.lock().unwrap().clone()
    }

    #[test]
    fn a_million_denials_are_counted_and_a_few_dozen_are_told() {
        let reported = reported(1_000_000, "x");
        assert_eq!(reported.len(), 64 + 13);
        let accounted: u64 = reported.iter().map(|denial| 1 + denial.suppressed).sum();
        assert_eq!(accounted, 1 << 19);
    }

    #[test]
    fn long_words_of_a_guest_are_cut_between_characters() {
        let reported = reported(1, &"ä".repeat(100_000));
        assert!(reported[0].request.len() <= REQUEST_MAX + 3);
        assert!(reported[0].request.ends_with("ä..."));
    }
}
