//! The slab: the payloads that a guest has handles to. A handle is a slot and the slot's generation.
//!
//! wasmtime checks that a guest uses only its own handles. The generation turns a mistake of the host into a lookup
//! that finds nothing, instead of another guest's payload.

use bytes::Bytes;
use torvyn_stream::{Charge, ContentName, Foreign, INLINE_MAX, Payload};

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// A payload that can be read.
pub struct Readable {
    pub payload: Payload,
    pub len: u32,
    pub content_type: Option<ContentName>,
    /// Its attributes, as the host language keeps them.
    pub companion: Option<Foreign>,
    /// For a companion that the guest set.
    pub charge: Option<Charge>,
    pub keep: bool,
}

/// A payload that is being written.
pub struct Writing {
    pub data: Data,
    pub capacity: u64,
    pub content_type: Option<ContentName>,
}

/// Usually there is one append: its bytes stay where they are put.
pub enum Data {
    Whole(Payload, u32),
    Growing(Vec<u8>),
}

pub enum Slot {
    Readable(Readable),
    Writing(Writing),
    /// A mutable buffer that was frozen, until the guest drops its handle.
    UsedUp,
}

struct Entry {
    generation: u16,
    slot: Option<Slot>,
}

pub struct Slab {
    entries: Vec<Entry>,
    free: Vec<u32>,
    limit: usize,
}

impl Slab {
    pub fn new(limit: usize) -> Self {
        Self { entries: Vec::new(), free: Vec::new(), limit: limit.min(INDEX_MASK as usize) }
    }

    /// A handle for the slot; None if the guest has as many as it may.
    #[inline]
    pub fn insert(&mut self, slot: Slot) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.slot = Some(slot);
            return Some(u32::from(entry.generation) << INDEX_BITS | index);
        }
        if self.entries.len() >= self.limit {
            return None;
        }
        self.entries.push(Entry { generation: 0, slot: Some(slot) });
        Some(self.entries.len() as u32 - 1)
    }

    #[inline]
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut Slot> {
        let entry = self.entries.get_mut((handle & INDEX_MASK) as usize)?;
        if u32::from(entry.generation) != handle >> INDEX_BITS {
            return None;
        }
        entry.slot.as_mut()
    }

    #[inline]
    pub fn remove(&mut self, handle: u32) -> Option<Slot> {
        let index = handle & INDEX_MASK;
        let entry = self.entries.get_mut(index as usize)?;
        if u32::from(entry.generation) != handle >> INDEX_BITS {
            return None;
        }
        let slot = entry.slot.take()?;
        // 12 bits fit above the index.
        entry.generation = (entry.generation + 1) & 0xfff;
        self.free.push(index);
        Some(slot)
    }
}

/// Keeps a host object alive while its bytes are lowered into a guest.
struct Lent(Foreign);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0.view().map_or(&[], |(bytes, _)| bytes)
    }
}

struct Shared(std::sync::Arc<[u8]>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Readable {
    /// The bytes in a form that wasmtime copies into the guest, and how many the host had to copy for it.
    pub fn bytes(&self) -> Option<(Bytes, u64)> {
        Self::view(&self.payload, self.len)
    }

    fn view(payload: &Payload, len: u32) -> Option<(Bytes, u64)> {
        match payload {
            Payload::Inline(bytes) => Some((Bytes::copy_from_slice(bytes.get(..len as usize)?), 0)),
            Payload::Shared(bytes) => Some((Bytes::from_owner(Shared(bytes.clone())), 0)),
            Payload::Foreign(object) => {
                let (bytes, copied) = object.view()?;
                let cost = if copied { bytes.len() as u64 } else { 0 };
                Some((Bytes::from_owner(Lent(object.clone())), cost))
            }
            Payload::Fanned(_) | Payload::Labelled(_) => Self::view(&payload.bare(), len),
        }
    }

    /// What it uses of the guest's memory limit, besides its charge.
    #[inline]
    pub fn held_bytes(&self) -> u64 {
        u64::from(self.len) + name_bytes(self.content_type.as_ref())
    }
}

#[inline]
fn name_bytes(name: Option<&ContentName>) -> u64 {
    name.map_or(0, |name| name.held_bytes() as u64)
}

impl Writing {
    pub fn len(&self) -> u64 {
        match &self.data {
            Data::Whole(_, len) => u64::from(*len),
            Data::Growing(bytes) => bytes.len() as u64,
        }
    }

    /// What it uses of the guest's memory limit.
    #[inline]
    pub fn held_bytes(&self) -> u64 {
        self.len() + name_bytes(self.content_type.as_ref())
    }

    /// Appends; the caller has checked that it fits.
    pub fn append(&mut self, more: &[u8]) {
        if self.len() == 0 {
            self.data = Data::Whole(Payload::from_slice(more), more.len() as u32);
        } else {
            self.growing().extend_from_slice(more);
        }
    }

    /// Overwrites from `offset`; the caller has checked that it fits.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let data = self.growing();
        let overlap = bytes.len().min(data.len() - offset);
        data[offset..offset + overlap].copy_from_slice(&bytes[..overlap]);
        data.extend_from_slice(&bytes[overlap..]);
    }

    fn growing(&mut self) -> &mut Vec<u8> {
        if let Data::Whole(payload, len) = &self.data {
            let mut bytes = Vec::with_capacity((*len as usize * 2).max(4 * INLINE_MAX));
            bytes.extend_from_slice(payload.bytes(*len).unwrap_or(&[]));
            self.data = Data::Growing(bytes);
        }
        match &mut self.data {
            Data::Growing(bytes) => bytes,
            Data::Whole(..) => unreachable!("made to grow above"),
        }
    }

    pub fn freeze(self) -> Readable {
        let (payload, len) = match self.data {
            Data::Whole(payload, len) => (payload, len),
            Data::Growing(bytes) => (Payload::from_slice(&bytes), bytes.len() as u32),
        };
        Readable { payload, len, content_type: self.content_type, companion: None, charge: None, keep: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writing() -> Writing {
        Writing { data: Data::Growing(Vec::new()), capacity: 64, content_type: None }
    }

    #[test]
    fn a_handle_that_was_given_back_finds_nothing() {
        let mut slab = Slab::new(4);
        let first = slab.insert(Slot::UsedUp).unwrap_or_default();
        assert!(slab.remove(first).is_some());
        let second = slab.insert(Slot::UsedUp).unwrap_or_default();
        assert_ne!(first, second);
        assert!(slab.get_mut(first).is_none() && slab.remove(first).is_none());
        assert!(slab.get_mut(second).is_some());
    }

    #[test]
    fn a_full_slab_gives_no_handle() {
        let mut slab = Slab::new(2);
        assert!(slab.insert(Slot::UsedUp).is_some() && slab.insert(Slot::UsedUp).is_some());
        assert!(slab.insert(Slot::UsedUp).is_none());
    }

    #[test]
    fn appends_and_writes_make_one_payload() {
        let mut buffer = writing();
        buffer.append(b"one ");
        buffer.append(b"two and more than sixteen");
        buffer.write(4, b"TWO");
        buffer.write(27, b"!!!");
        let frozen = buffer.freeze();
        assert_eq!(frozen.payload.bytes(frozen.len), Some(&b"one TWO and more than sixte!!!"[..]));
    }
}
