//! The bytes of an element: inline when small, shared when large, or a foreign object that has not been read yet.

use std::sync::Arc;

use crate::foreign::Foreign;

/// Payloads up to this size live in the queue slot itself.
pub const INLINE_MAX: usize = 16;

/// The length is the element's. A tag of eight bytes keeps all parts aligned, so that moves are whole words.
#[derive(Debug, Clone)]
#[repr(u64)]
pub enum Payload {
    Inline([u8; INLINE_MAX]),
    Shared(Arc<[u8]>),
    /// A str or bytes of the host language, as it came.
    Foreign(Foreign),
    /// One payload on several edges. The count tells the ledger which consumer was the last.
    Fanned(Arc<Payload>),
}

impl Payload {
    #[inline]
    pub fn from_slice(data: &[u8]) -> Self {
        if data.len() <= INLINE_MAX {
            let mut bytes = [0; INLINE_MAX];
            bytes[..data.len()].copy_from_slice(data);
            Payload::Inline(bytes)
        } else {
            Payload::Shared(Arc::from(data))
        }
    }

    /// The bytes, unless a foreign object holds them.
    #[inline]
    pub fn bytes(&self, len: u32) -> Option<&[u8]> {
        match self {
            Payload::Inline(bytes) => bytes.get(..len as usize),
            Payload::Shared(bytes) => Some(bytes),
            Payload::Foreign(_) => None,
            Payload::Fanned(inner) => inner.bytes(len),
        }
    }

    #[inline]
    pub fn foreign(&self) -> Option<&Foreign> {
        match self {
            Payload::Foreign(object) => Some(object),
            Payload::Fanned(inner) => inner.foreign(),
            _ => None,
        }
    }

    /// Whether no other edge still carries this payload.
    #[inline]
    pub fn is_last(&self) -> bool {
        match self {
            Payload::Fanned(inner) => Arc::strong_count(inner) == 1,
            _ => true,
        }
    }

    /// The same payload in a form that several edges can carry.
    pub fn into_fanned(self) -> Self {
        match self {
            fanned @ Payload::Fanned(_) => fanned,
            other => Payload::Fanned(Arc::new(other)),
        }
    }
}
