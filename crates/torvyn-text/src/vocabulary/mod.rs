//! Maps token ids to bytes: a table created once per tokenizer and shared by its streamers.
//!
//! Tokenizers differ in three ways that a table of bytes does not show, so they are kept here: what a token is at the
//! very start of a text (`Start`), how invalid bytes are counted, and whether a hidden token still separates the bytes
//! around it.

pub mod gguf;
mod protobuf;
pub mod sentencepiece;

/// Byte strings, one after the other.
#[derive(Debug, Default, Clone)]
pub struct Table {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Table {
    /// Appends an entry; false when the table would exceed 4 GiB.
    #[must_use]
    pub fn push(&mut self, entry: &[u8]) -> bool {
        let Ok(end) = u32::try_from(self.bytes.len() + entry.len()) else {
            return false;
        };
        self.bytes.extend_from_slice(entry);
        self.ends.push(end);
        true
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        self.bytes.get(start..end)
    }
}

/// How long the start of a text lasts. Until then, `Vocabulary::first` has the tokens' bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// For one token (Metaspace and WordPiece decoders of tokenizer.json).
    Token,
    /// Until a token that is not empty (SentencePiece, `add_dummy_prefix`).
    Taken,
    /// Until there is text (SentencePiece, `remove_extra_whitespaces`).
    Text,
}

/// What is known about a token besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Text whose bytes are whole characters, as nearly all are.
    Whole,
    Special,
    /// An unused id.
    Missing,
}

#[derive(Debug, Clone)]
pub struct Vocabulary {
    table: Table,
    kinds: Vec<Kind>,
    first: Option<(Table, Start)>,
    /// Leading spaces that are removed from the whole text.
    pub strip: u32,
    /// One U+FFFD per invalid byte, not per maximal subpart.
    pub replace_each_byte: bool,
    /// A hidden special token ends an incomplete character before it.
    pub special_separates: bool,
}

impl Vocabulary {
    /// A `None` entry is an unused id. Returns None if the table is too large.
    pub fn new<'a>(entries: impl IntoIterator<Item = Option<&'a [u8]>>) -> Option<Self> {
        let mut table = Table::default();
        let mut kinds = Vec::new();
        for entry in entries {
            if !table.push(entry.unwrap_or_default()) {
                return None;
            }
            kinds.push(match entry {
                None => Kind::Missing,
                Some(bytes) if std::str::from_utf8(bytes).is_ok() => Kind::Whole,
                Some(_) => Kind::Text,
            });
        }
        let strip = 0;
        Some(Self { table, kinds, first: None, strip, replace_each_byte: false, special_separates: false })
    }

    /// Marks an id as special; false if there is no such id.
    pub fn mark_special(&mut self, id: usize) -> bool {
        let found = self.kinds.get_mut(id).filter(|kind| **kind != Kind::Missing);
        if let Some(kind) = found {
            *kind = Kind::Special;
            return true;
        }
        false
    }

    /// Sets the tokens' bytes at the start of a text; false if the table has another length.
    pub fn start_with(&mut self, first: Table, until: Start) -> bool {
        let fits = first.len() == self.table.len();
        if fits {
            self.first = Some((first, until));
        }
        fits
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The index of an id that is in use.
    pub fn index(&self, id: i64) -> Option<usize> {
        let index = usize::try_from(id).ok()?;
        let kind = *self.kinds.get(index)?;
        (kind != Kind::Missing).then_some(index)
    }

    pub fn kind(&self, index: usize) -> Kind {
        self.kinds.get(index).copied().unwrap_or(Kind::Missing)
    }

    pub fn bytes(&self, index: usize) -> &[u8] {
        self.table.get(index).unwrap_or_default()
    }

    /// The start of a text, if this vocabulary treats it specially.
    pub fn start(&self) -> Option<Start> {
        self.first.as_ref().map(|(_, until)| *until)
    }

    /// A token's bytes at the start of a text.
    pub fn first_bytes(&self, index: usize) -> &[u8] {
        match &self.first {
            Some((table, _)) => table.get(index).unwrap_or_default(),
            None => self.bytes(index),
        }
    }
}
