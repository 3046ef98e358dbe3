//! The encoding of a batch of elements, with a checksum.
//!
//! ```text
//! "TVB1"  crc32 of the rest  count: u32  then per element:
//!     flags: u8  content type: varint  time: varint, ns since the element before  payload length: varint
//!     [name length, name]  [attributes length, attributes]  payload
//! ```
//!
//! Numbers are little-endian. Times are Unix time. The sequence numbers of a batch follow from its first one, which
//! the carrier keeps next to the batch.

use std::sync::Arc;

use torvyn_stream::{ContentName, Delivery, Element, Emission, Foreign, Payload, StageError};

use crate::varint::{put, put_signed, take, take_bytes, take_signed};

const MAGIC: [u8; 4] = *b"TVB1";
const HEADER: usize = 12;
/// The bytes of a batch without elements.
pub(crate) const EMPTY_BYTES: usize = HEADER;
/// Room for a token, which is often alone.
const FIRST_BYTES: usize = 128;

const KEEP: u8 = 1;
const NAMED: u8 = 2;
const ATTRIBUTES: u8 = 4;

/// How the host language writes and reads the attributes of an element.
pub trait Attributes: Send + Sync {
    /// Appends the attributes of an element; appends nothing when it has none.
    fn encode(&self, companion: &Foreign, out: &mut Vec<u8>) -> Result<(), StageError>;

    /// The attributes of a stored element; `None` when they cannot be read.
    fn decode(&self, stored: &[u8]) -> Option<Foreign>;

    /// The decoded attributes, if there are any, with the marks.
    fn mark(&self, decoded: Option<Foreign>, marks: Marks) -> Option<Foreign>;
}

/// How the host language reads the key of an element.
pub trait Keys: Send + Sync {
    fn key_of(&self, element: &Element, payload: &[u8]) -> Result<Arc<str>, StageError>;
}

/// What reading an element adds to its attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Its time in Unix nanoseconds, when it is older than this boot.
    pub event_time_ns: Option<i64>,
    /// It waited while newer elements were delivered.
    pub is_historical: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("not a batch")]
    NotABatch,
    #[error("the checksum is wrong")]
    WrongChecksum,
    #[error("the batch ends too early")]
    Truncated,
}

/// A batch under construction.
#[derive(Debug)]
pub struct BatchBuilder {
    bytes: Vec<u8>,
    count: u32,
    last_ns: i64,
    newest_ns: i64,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        let mut bytes = Vec::with_capacity(FIRST_BYTES);
        bytes.resize(HEADER, 0);
        Self { bytes, count: 0, last_ns: 0, newest_ns: i64::MIN }
    }
}

impl BatchBuilder {
    /// `attributes`: as the host language has encoded them.
    pub fn push(&mut self, element: &Element, payload: &[u8], time_ns: i64, attributes: &[u8]) {
        let name = element.content_name();
        let index = match &name {
            ContentName::WellKnown(known) => known.index(),
            ContentName::Other(_) => 0,
        };
        let named = matches!(name, ContentName::Other(_));
        let flags = u8::from(element.keep()) * KEEP
            + u8::from(named) * NAMED
            + u8::from(!attributes.is_empty()) * ATTRIBUTES;
        let out = &mut self.bytes;
        out.push(flags);
        put(out, u64::from(index));
        put_signed(out, time_ns.wrapping_sub(self.last_ns));
        put(out, payload.len() as u64);
        if named {
            put(out, name.as_str().len() as u64);
            out.extend_from_slice(name.as_str().as_bytes());
        }
        if !attributes.is_empty() {
            put(out, attributes.len() as u64);
            out.extend_from_slice(attributes);
        }
        out.extend_from_slice(payload);
        self.last_ns = time_ns;
        self.newest_ns = self.newest_ns.max(time_ns);
        self.count += 1;
    }

    /// Adds the elements of a finished batch. Only the time of its first one depends on what is before it.
    fn append(&mut self, batch: &[u8]) -> Result<(), BatchError> {
        let (header, elements) = batch.split_at_checked(HEADER).ok_or(BatchError::NotABatch)?;
        let count = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let (mut rest, mut time_ns) = (elements, 0);
        for at in 0..count {
            decode_one(&mut rest, &mut time_ns).ok_or(BatchError::Truncated)?;
            if at == 0 {
                self.append_first(elements, time_ns).ok_or(BatchError::Truncated)?;
            }
            self.newest_ns = self.newest_ns.max(time_ns);
            self.last_ns = time_ns;
        }
        self.count += count;
        Ok(())
    }

    fn append_first(&mut self, mut elements: &[u8], time_ns: i64) -> Option<()> {
        let (&flags, rest) = elements.split_first()?;
        elements = rest;
        let index = take(&mut elements)?;
        take_signed(&mut elements)?;
        self.bytes.push(flags);
        put(&mut self.bytes, index);
        put_signed(&mut self.bytes, time_ns.wrapping_sub(self.last_ns));
        self.bytes.extend_from_slice(elements);
        Some(())
    }

    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn newest_ns(&self) -> i64 {
        self.newest_ns
    }

    /// A batch that was finished before, with its elements, as new as `newest_ns`.
    pub fn reopen(batch: &[u8], newest_ns: i64) -> Result<Self, BatchError> {
        let stored = decode(batch)?;
        let last_ns = stored.last().map_or(0, |one| one.time_ns);
        Ok(Self { bytes: batch.to_vec(), count: stored.len() as u32, last_ns, newest_ns })
    }

    /// The finished batch.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes[8..HEADER].copy_from_slice(&self.count.to_le_bytes());
        let checksum = crc32fast::hash(&self.bytes[8..]);
        self.bytes[..4].copy_from_slice(&MAGIC);
        self.bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        self.bytes
    }
}

/// One element of a decoded batch.
#[derive(Debug)]
pub struct Stored<'a> {
    pub time_ns: i64,
    pub keep: bool,
    pub name: ContentName,
    pub attributes: &'a [u8],
    pub payload: &'a [u8],
}

impl Stored<'_> {
    pub fn emission(&self, companion: Option<Foreign>) -> Emission {
        let payload = Payload::from_slice(self.payload);
        let (payload, content_type) = payload.named(self.name.clone());
        let len = self.payload.len() as u32;
        Emission { payload, len, content_type, companion, delivery: Delivery::kept_if(self.keep) }
    }
}

/// Checks a batch and reads its elements.
pub fn decode(batch: &[u8]) -> Result<Vec<Stored<'_>>, BatchError> {
    let (header, mut rest) = batch.split_at_checked(HEADER).ok_or(BatchError::NotABatch)?;
    if header[..4] != MAGIC {
        return Err(BatchError::NotABatch);
    }
    if header[4..8] != crc32fast::hash(&batch[8..]).to_le_bytes() {
        return Err(BatchError::WrongChecksum);
    }
    let count = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    let mut elements = Vec::with_capacity((count as usize).min(rest.len() / 4));
    let mut last_ns = 0;
    for _ in 0..count {
        let element = decode_one(&mut rest, &mut last_ns).ok_or(BatchError::Truncated)?;
        elements.push(element);
    }
    Ok(elements)
}

/// One batch with the elements of several, in their order.
pub fn join<'a>(batches: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, BatchError> {
    let mut joined = BatchBuilder::default();
    for batch in batches {
        joined.append(batch)?;
    }
    Ok(joined.finish())
}

fn decode_one<'a>(rest: &mut &'a [u8], last_ns: &mut i64) -> Option<Stored<'a>> {
    let (&flags, after) = rest.split_first()?;
    *rest = after;
    let index = take(rest)?;
    *last_ns = last_ns.wrapping_add(take_signed(rest)?);
    let len = take(rest)?;
    let name = if flags & NAMED != 0 {
        let len = take(rest)?;
        ContentName::new(std::str::from_utf8(take_bytes(rest, len)?).ok()?)?
    } else {
        ContentName::well_known(u16::try_from(index).ok()?)?
    };
    let attributes = if flags & ATTRIBUTES != 0 {
        let len = take(rest)?;
        take_bytes(rest, len)?
    } else {
        &[]
    };
    let payload = take_bytes(rest, len)?;
    Some(Stored { time_ns: *last_ns, keep: flags & KEEP != 0, name, attributes, payload })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Parts = (Vec<u8>, i64, bool, String);

    fn encode(parts: &[Parts]) -> Vec<u8> {
        let mut builder = BatchBuilder::default();
        for (payload, time_ns, keep, name) in parts {
            let name = ContentName::new(name).unwrap_or(ContentName::BINARY);
            let (inner, content_type) = Payload::from_slice(payload).named(name);
            let len = payload.len() as u32;
            let emission = Emission {
                payload: inner,
                len,
                content_type,
                companion: None,
                delivery: Delivery::kept_if(*keep),
            };
            let element = Element::made(emission, 0, 0, 0);
            builder.push(&element, payload, *time_ns, &[]);
        }
        builder.finish()
    }

    fn parts() -> impl Strategy<Value = Vec<Parts>> {
        let name = prop_oneof![Just("application/json".to_owned()), "[a-z]{1,20}/[a-z]{0,5}"];
        let one = (prop::collection::vec(any::<u8>(), 0..60), any::<i64>(), any::<bool>(), name);
        prop::collection::vec(one, 0..30)
    }

    proptest! {
        #[test]
        fn a_batch_comes_back_as_it_was(parts in parts()) {
            let batch = encode(&parts);
            let back = decode(&batch);
            let back: Vec<Parts> = back.into_iter().flatten()
                .map(|one| (one.payload.to_vec(), one.time_ns, one.keep, one.name.as_str().to_owned()))
                .collect();
            prop_assert_eq!(back, parts);
        }

        #[test]
        fn joined_batches_have_the_elements_of_all(all in prop::collection::vec(parts(), 0..8)) {
            let batches: Vec<Vec<u8>> = all.iter().map(|parts| encode(parts)).collect();
            let joined = join(batches.iter().map(Vec::as_slice));
            prop_assert_eq!(joined, Ok(encode(&all.concat())));
        }

        #[test]
        fn no_flipped_bit_goes_unnoticed(parts in parts(), at: prop::sample::Index, bit in 0..8u32) {
            let mut batch = encode(&parts);
            let at = at.index(batch.len());
            batch[at] ^= 1 << bit;
            prop_assert!(decode(&batch).is_err());
        }

        #[test]
        fn garbage_is_an_error_and_never_a_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut batch = data;
            let _ = decode(&batch);
            if batch.len() > HEADER {
                // A right checksum over garbage reaches the decoder of elements.
                let checksum = crc32fast::hash(&batch[8..]).to_le_bytes();
                batch[..4].copy_from_slice(&MAGIC);
                batch[4..8].copy_from_slice(&checksum);
                let _ = decode(&batch);
            }
        }

        #[test]
        fn a_torn_batch_is_an_error(parts in parts(), keep: prop::sample::Index) {
            let batch = encode(&parts);
            prop_assert!(decode(&batch[..keep.index(batch.len())]).is_err());
        }
    }
}
