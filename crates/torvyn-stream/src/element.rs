//! One element as a queue stores it, in 64 bytes.

use crate::content::{ContentName, ContentType};
use crate::foreign::Foreign;
use crate::ledger::{CopyReason, Ledger};
use crate::payload::Payload;
use crate::receipt::Receipt;
use crate::stage::Emission;

const KEEP: u16 = 1 << 15;

#[derive(Debug, Clone)]
pub struct Element {
    pub sequence: u64,
    /// Monotonic time at which the source's turn began.
    pub timestamp_ns: u64,
    /// Length of the payload in bytes.
    pub len: u32,
    pub content_type: ContentType,
    owner: u16,
    pub payload: Payload,
    /// What the host language keeps next to the payload: attributes, or the object that it was passed as.
    pub companion: Option<Foreign>,
}

const _: () = assert!(size_of::<Element>() == 64);

impl Element {
    #[inline(always)]
    pub fn made(emission: Emission, owner: u16, sequence: u64, timestamp_ns: u64) -> Self {
        Self {
            sequence,
            timestamp_ns,
            len: emission.len,
            content_type: emission.content_type,
            owner: (owner & !KEEP) | if emission.delivery.keeps() { KEEP } else { 0 },
            payload: emission.payload,
            companion: emission.companion,
        }
    }

    /// The payload as bytes for a native stage. A copy that the host had to make is counted.
    #[inline]
    pub fn read(&self, ledger: &Ledger) -> Option<&[u8]> {
        if let Some(bytes) = self.payload.bytes(self.len) {
            return Some(bytes);
        }
        let (bytes, copied) = self.payload.foreign()?.view()?;
        if copied {
            ledger.copy(CopyReason::HostToNative, bytes.len() as u64);
        }
        Some(bytes)
    }

    /// The content type with its name.
    #[inline]
    pub fn content_name(&self) -> ContentName {
        if self.content_type == ContentType::LABELLED
            && let Some(name) = self.payload.label()
        {
            return ContentName::Other(name.clone());
        }
        ContentName::WellKnown(self.content_type)
    }

    /// A copy that neither the ledger nor an acknowledgement waits for, for code outside the turn.
    pub fn detached(&self) -> Self {
        Self { payload: self.payload.untracked(), companion: self.companion.clone(), ..*self }
    }

    /// The receipt of the source elements that it was made from.
    #[inline]
    pub fn receipt(&self) -> Option<Receipt> {
        self.payload.receipt().cloned()
    }

    /// The node whose budget pays for the payload.
    #[inline]
    pub fn owner(&self) -> usize {
        usize::from(self.owner & !KEEP)
    }

    /// Whether an interrupt keeps it in the queue.
    #[inline]
    pub fn keep(&self) -> bool {
        self.owner & KEEP != 0
    }
}
