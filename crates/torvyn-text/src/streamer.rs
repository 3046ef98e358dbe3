//! Streaming token ids to text: a table lookup and an incremental UTF-8 decoder; nothing is decoded twice.
//!
//! The joined pieces are the text of all ids, however they are split. A call that fails leaves the streamer unchanged.

use std::sync::Arc;

use thiserror::Error;

use crate::graphemes::Graphemes;
use crate::utf8::Utf8Decoder;
use crate::vocabulary::{Kind, Start, Vocabulary};

/// What happens to invalid UTF-8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    Replace,
    Drop,
    Error,
}

/// What happens to an id that is not in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    Error,
    Skip,
    Replace,
}

#[derive(Debug, Clone, Copy)]
pub struct Policies {
    pub skip_special: bool,
    pub tail: Bad,
    pub bad_bytes: Bad,
    pub unknown: Unknown,
    pub graphemes: bool,
    /// The ids continue an earlier text: the first one is not special.
    pub continues: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    #[error("id {id} is out of range: the vocabulary has {size} tokens")]
    UnknownId { id: i64, size: usize },
    #[error("token ids need a vocabulary")]
    NoVocabulary,
    #[error("invalid UTF-8 bytes")]
    BadBytes { bytes: Vec<u8> },
    #[error("an incomplete character at the end")]
    Unfinished { bytes: Vec<u8> },
}

/// The small part of the state, which is restored when a call fails.
#[derive(Debug, Clone, Copy)]
struct Position {
    decoder: Utf8Decoder,
    start: Option<Start>,
    strip: u32,
}

pub struct Streamer {
    vocabulary: Option<Arc<Vocabulary>>,
    policies: Policies,
    position: Position,
    graphemes: Option<Graphemes>,
    decoded: String,
}

impl Streamer {
    pub fn new(vocabulary: Option<Arc<Vocabulary>>, policies: Policies) -> Self {
        let position = beginning(vocabulary.as_deref(), policies);
        let graphemes = policies.graphemes.then(Graphemes::default);
        Self { vocabulary, policies, position, graphemes, decoded: String::new() }
    }

    /// The text of an id that is complete by itself and changes nothing here; None: call `put_ids`.
    pub fn plain(&self, id: i64) -> Option<&str> {
        let vocabulary = self.vocabulary.as_deref()?;
        let index = vocabulary.index(id)?;
        let position = &self.position;
        let is_plain = vocabulary.kind(index) == Kind::Whole
            && position.start.is_none()
            && position.strip == 0
            && position.decoder.held_bytes() == 0
            && self.graphemes.is_none();
        if is_plain { std::str::from_utf8(vocabulary.bytes(index)).ok() } else { None }
    }

    /// Appends to `out` the text that these ids complete.
    pub fn put_ids(&mut self, ids: &[i64], out: &mut String) -> Result<(), StreamError> {
        let vocabulary = self.vocabulary.clone().ok_or(StreamError::NoVocabulary)?;
        let before = self.position;
        self.decoded.clear();
        for &id in ids {
            if let Err(error) = self.take(&vocabulary, id) {
                self.position = before;
                return Err(error);
            }
        }
        self.hand_on(out);
        Ok(())
    }

    /// Appends to `out` the text that these bytes complete.
    pub fn put_bytes(&mut self, bytes: &[u8], out: &mut String) -> Result<(), StreamError> {
        let before = self.position;
        self.decoded.clear();
        if let Err(error) = self.decode(bytes) {
            self.position = before;
            return Err(error);
        }
        self.hand_on(out);
        Ok(())
    }

    /// Ends the input: the buffered text is sent as the tail policy says. The streamer is reset.
    pub fn finish(&mut self, out: &mut String) -> Result<(), StreamError> {
        self.decoded.clear();
        let incomplete = self.position.decoder.incomplete();
        match self.policies.tail {
            _ if incomplete.is_empty() => {}
            Bad::Error => return Err(StreamError::Unfinished { bytes: incomplete.to_vec() }),
            Bad::Drop => {}
            Bad::Replace => replace(incomplete.len(), self.replaces_each(), &mut self.decoded),
        }
        self.hand_on(out);
        if let Some(graphemes) = &mut self.graphemes {
            graphemes.finish(out);
        }
        self.clear();
        Ok(())
    }

    /// Resets the streamer.
    pub fn clear(&mut self) {
        self.position = beginning(self.vocabulary.as_deref(), self.policies);
        if let Some(graphemes) = &mut self.graphemes {
            graphemes.clear();
        }
    }

    pub fn held_bytes(&self) -> usize {
        self.position.decoder.held_bytes() + self.graphemes.as_ref().map_or(0, Graphemes::held_bytes)
    }

    fn replaces_each(&self) -> bool {
        self.vocabulary.as_ref().is_some_and(|vocabulary| vocabulary.replace_each_byte)
    }

    fn take(&mut self, vocabulary: &Vocabulary, id: i64) -> Result<(), StreamError> {
        let Some(index) = vocabulary.index(id) else {
            return self.take_unknown(vocabulary, id);
        };
        if self.policies.skip_special && vocabulary.kind(index) == Kind::Special {
            return if vocabulary.special_separates { self.break_off() } else { Ok(()) };
        }
        let bytes = match self.position.start {
            None => vocabulary.bytes(index),
            Some(until) => {
                let bytes = vocabulary.first_bytes(index);
                let is_over = match until {
                    Start::Token => true,
                    Start::Taken => !vocabulary.bytes(index).is_empty(),
                    Start::Text => !bytes.is_empty(),
                };
                if is_over {
                    self.position.start = None;
                }
                bytes
            }
        };
        self.decode(bytes)
    }

    fn take_unknown(&mut self, vocabulary: &Vocabulary, id: i64) -> Result<(), StreamError> {
        match self.policies.unknown {
            Unknown::Error => Err(StreamError::UnknownId { id, size: vocabulary.len() }),
            Unknown::Skip => Ok(()),
            Unknown::Replace => self.decode("\u{fffd}".as_bytes()),
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let each = self.replaces_each();
        let mut failed = None;
        let policy = self.policies.bad_bytes;
        self.position.decoder.put_with(bytes, &mut self.decoded, &mut |bad, out| match policy {
            Bad::Replace => replace(bad.len(), each, out),
            Bad::Drop => {}
            Bad::Error => failed = failed.take().or_else(|| Some(bad.to_vec())),
        });
        failed.map_or(Ok(()), |bytes| Err(StreamError::BadBytes { bytes }))
    }

    /// An incomplete character will not be completed.
    fn break_off(&mut self) -> Result<(), StreamError> {
        let incomplete = self.position.decoder.incomplete();
        match self.policies.bad_bytes {
            _ if incomplete.is_empty() => {}
            Bad::Error => return Err(StreamError::BadBytes { bytes: incomplete.to_vec() }),
            Bad::Drop => {}
            Bad::Replace => {
                replace(incomplete.len(), self.replaces_each(), &mut self.decoded);
            }
        }
        self.position.decoder.clear();
        Ok(())
    }

    /// Sends the decoded text, without the leading spaces of the text and without an open cluster.
    fn hand_on(&mut self, out: &mut String) {
        let mut text = self.decoded.as_str();
        while self.position.strip > 0 && !text.is_empty() {
            match text.strip_prefix(' ') {
                Some(rest) => (text, self.position.strip) = (rest, self.position.strip - 1),
                None => self.position.strip = 0,
            }
        }
        match &mut self.graphemes {
            None => out.push_str(text),
            Some(graphemes) => graphemes.put(text, out),
        }
    }
}

fn beginning(vocabulary: Option<&Vocabulary>, policies: Policies) -> Position {
    let particular = vocabulary.filter(|_| !policies.continues);
    Position {
        decoder: Utf8Decoder::new(),
        start: particular.and_then(Vocabulary::start),
        strip: particular.map_or(0, |vocabulary| vocabulary.strip),
    }
}

fn replace(bytes: usize, each: bool, out: &mut String) {
    for _ in 0..if each { bytes } else { 1 } {
        out.push(char::REPLACEMENT_CHARACTER);
    }
}

#[cfg(test)]
#[path = "streamer_tests.rs"]
mod tests;
