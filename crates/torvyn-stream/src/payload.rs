//! The bytes of an element: inline when small, shared when large, or a foreign object that nothing has read yet.

use std::sync::Arc;

use crate::account::Charge;
use crate::content::{ContentName, ContentType};
use crate::foreign::Foreign;
use crate::receipt::Receipt;

/// Payloads up to this size live in the queue slot itself.
pub const INLINE_MAX: usize = 16;

/// The element stores the length. A tag of eight bytes keeps all parts aligned, so moves copy whole words.
#[derive(Debug, Clone)]
#[repr(u64)]
pub enum Payload {
    Inline([u8; INLINE_MAX]),
    Shared(Arc<[u8]>),
    /// A str or bytes object of the host language, unchanged.
    Foreign(Foreign),
    /// One payload on several edges. The count tells the ledger which consumer is the last.
    Fanned(Arc<Payload>),
    /// A payload with extras: the name of a content type that is not well known, a charge, or a receipt.
    Labelled(Arc<Labelled>),
}

#[derive(Debug)]
pub struct Labelled {
    payload: Payload,
    name: Option<Arc<str>>,
    /// Ends when the last element with this payload is dropped.
    _charge: Option<Charge>,
    receipt: Option<Receipt>,
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

    /// The bytes, unless they are in a foreign object.
    #[inline]
    pub fn bytes(&self, len: u32) -> Option<&[u8]> {
        match self {
            Payload::Inline(bytes) => bytes.get(..len as usize),
            Payload::Shared(bytes) => Some(bytes),
            Payload::Foreign(_) => None,
            Payload::Fanned(inner) => inner.bytes(len),
            Payload::Labelled(inner) => inner.payload.bytes(len),
        }
    }

    #[inline]
    pub fn foreign(&self) -> Option<&Foreign> {
        match self {
            Payload::Foreign(object) => Some(object),
            Payload::Fanned(inner) => inner.foreign(),
            Payload::Labelled(inner) => inner.payload.foreign(),
            _ => None,
        }
    }

    /// Whether no other edge carries this payload.
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

    /// The payload as it goes into an element, with the type that the element carries for `name`.
    #[inline]
    pub fn named(self, name: ContentName) -> (Self, ContentType) {
        match name {
            ContentName::WellKnown(known) => (self, known),
            ContentName::Other(name) => (self.labelled(Some(name), None, None), ContentType::LABELLED),
        }
    }

    /// The payload with a charge that ends with it.
    pub fn charged(self, charge: Charge) -> Self {
        let name = self.label().cloned();
        self.labelled(name, Some(charge), None)
    }

    /// The payload with the receipt of the elements that it was made from.
    pub fn tracked(self, receipt: Receipt) -> Self {
        self.labelled(None, None, Some(receipt))
    }

    /// The receipt that the payload carries.
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Payload::Fanned(inner) => inner.receipt(),
            Payload::Labelled(inner) => inner.receipt.as_ref().or_else(|| inner.payload.receipt()),
            _ => None,
        }
    }

    fn labelled(self, name: Option<Arc<str>>, charge: Option<Charge>, receipt: Option<Receipt>) -> Self {
        Payload::Labelled(Arc::new(Labelled { payload: self, name, _charge: charge, receipt }))
    }

    /// The same payload without a receipt, for copies that must not delay its acknowledgement.
    pub fn untracked(&self) -> Self {
        match self {
            Payload::Fanned(inner) => inner.untracked(),
            Payload::Labelled(inner) if inner.receipt.is_some() => inner.payload.untracked(),
            other => other.clone(),
        }
    }

    /// The same payload without a label or a count of edges.
    pub fn bare(&self) -> Self {
        match self {
            Payload::Fanned(inner) => inner.bare(),
            Payload::Labelled(inner) => inner.payload.bare(),
            other => other.clone(),
        }
    }

    pub(crate) fn label(&self) -> Option<&Arc<str>> {
        match self {
            Payload::Fanned(inner) => inner.label(),
            Payload::Labelled(inner) => inner.name.as_ref().or_else(|| inner.payload.label()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;
    use crate::element::Element;
    use crate::stage::Emission;

    fn element(payload: Payload, content_type: ContentType) -> Element {
        let emission = Emission { payload, content_type, ..Emission::text("0123456789abcdef") };
        Element::made(emission, 0, 0, 0)
    }

    fn name(text: &str) -> ContentName {
        ContentName::new(text).unwrap_or(ContentName::BINARY)
    }

    #[test]
    fn a_name_travels_with_the_payload_and_ends_with_it() {
        let ContentName::Other(text) = name("application/vnd.example") else { unreachable!() };
        let (payload, kind) =
            Payload::from_slice(b"0123456789abcdef").named(ContentName::Other(text.clone()));
        let made = element(payload, kind);
        let copy = made.clone();
        drop(made);
        assert_eq!(copy.content_name(), name("application/vnd.example"));
        assert_eq!(copy.payload.bytes(16), Some(&b"0123456789abcdef"[..]));
        drop(copy);
        assert_eq!(Arc::strong_count(&text), 1);
    }

    #[test]
    fn a_well_known_name_costs_the_payload_nothing() {
        let (payload, kind) = Payload::from_slice(b"{}").named(name("application/json"));
        assert!(matches!(payload, Payload::Inline(_)));
        assert_eq!(element(payload, kind).content_name(), name("application/json"));
    }

    #[test]
    fn a_charge_ends_with_the_last_copy_on_any_edge() {
        let account = Arc::<Account>::default();
        let (payload, _) = Payload::from_slice(b"x").named(name("a/b"));
        let fanned = payload.charged(account.charge(100)).into_fanned();
        let other = fanned.clone();
        assert!(!fanned.is_last());
        drop(fanned);
        assert_eq!((account.bytes(), other.is_last()), (100, true));
        assert_eq!(other.label().map(AsRef::as_ref), Some("a/b"));
        drop(other.bare());
        drop(other);
        assert_eq!(account.bytes(), 0);
    }
}
