//! The tokenizer in the metadata of a GGUF file. Tensors are never read.
//!
//! The file is read once, forwards, with a limit; no memory is reserved for a count that the file only claims.

use std::io::{self, Read};

use thiserror::Error;

/// The limit of metadata, in bytes.
pub const MAX_METADATA: u64 = 1 << 29;
pub const MAX_TOKENS: u64 = 1 << 22;
/// Bytes of all tokens together.
pub const MAX_TOKEN_BYTES: u64 = 1 << 27;
const MAX_NAME: u64 = 1 << 16;
const MAX_PAIRS: u64 = 1 << 16;
const MAX_DEPTH: u32 = 4;

#[derive(Debug, Error)]
pub enum GgufError {
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
    #[error("not a GGUF file")]
    NotGguf,
    #[error("GGUF version {version} is not supported")]
    Version { version: u32 },
    #[error("the file ends within its metadata, at byte {at}")]
    Truncated { at: u64 },
    #[error("{what} at byte {at} is {value}, more than {limit}")]
    TooLarge { what: &'static str, at: u64, value: u64, limit: u64 },
    #[error("the value of {key:?} at byte {at} has an unknown type")]
    BadType { key: String, at: u64 },
    #[error("{key:?} has the wrong type")]
    WrongType { key: String },
    #[error("the metadata has no {key:?}")]
    Missing { key: &'static str },
}

/// The tokenizer as the metadata describes it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tokenizer {
    /// `gpt2`, `llama`, ...
    pub model: String,
    pub tokens: Vec<Vec<u8>>,
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; empty if the file has none.
    pub kinds: Vec<i32>,
    pub add_space_prefix: Option<bool>,
}

/// Reads the metadata from the beginning of a file.
pub fn read(file: impl Read) -> Result<Tokenizer, GgufError> {
    let mut reader = Reader { file: file.take(MAX_METADATA), at: 0 };
    if reader.array::<4>().map_err(not_gguf)? != *b"GGUF" {
        return Err(GgufError::NotGguf);
    }
    let version = reader.u32()?;
    if !matches!(version, 2 | 3) {
        return Err(GgufError::Version { version });
    }
    let _tensors = reader.u64()?;
    let pairs = reader.count("the number of entries", MAX_PAIRS)?;
    let mut found = Tokenizer::default();
    for _ in 0..pairs {
        let key = String::from_utf8_lossy(&reader.string("a name's length", MAX_NAME)?).into_owned();
        let kind = reader.u32()?;
        found.take(&mut reader, key, kind)?;
    }
    if found.model.is_empty() {
        return Err(GgufError::Missing { key: "tokenizer.ggml.model" });
    }
    if found.tokens.is_empty() {
        return Err(GgufError::Missing { key: "tokenizer.ggml.tokens" });
    }
    Ok(found)
}

/// A file that is too short for the magic number is not a GGUF file.
fn not_gguf(error: GgufError) -> GgufError {
    if matches!(error, GgufError::Truncated { .. }) { GgufError::NotGguf } else { error }
}

impl Tokenizer {
    fn take(&mut self, reader: &mut Reader<impl Read>, key: String, kind: u32) -> Result<(), GgufError> {
        match (key.as_str(), kind) {
            ("tokenizer.ggml.model", STRING) => {
                let name = reader.string("a name's length", MAX_NAME)?;
                self.model = String::from_utf8_lossy(&name).into_owned();
            }
            ("tokenizer.ggml.tokens", ARRAY) => self.tokens = reader.strings(&key)?,
            ("tokenizer.ggml.token_type", ARRAY) => self.kinds = reader.numbers(&key)?,
            ("tokenizer.ggml.add_space_prefix", BOOL) => {
                self.add_space_prefix = Some(reader.array::<1>()?[0] != 0);
            }
            (
                "tokenizer.ggml.model"
                | "tokenizer.ggml.tokens"
                | "tokenizer.ggml.token_type"
                | "tokenizer.ggml.add_space_prefix",
                _,
            ) => return Err(GgufError::WrongType { key }),
            _ => reader.skip(&key, kind, 0)?,
        }
        Ok(())
    }
}

const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

fn fixed_size(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | BOOL => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

struct Reader<R> {
    file: io::Take<R>,
    at: u64,
}

impl<R: Read> Reader<R> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|error| self.ended(error))?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn ended(&self, error: io::Error) -> GgufError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof if self.file.limit() == 0 => GgufError::TooLarge {
                what: "the metadata",
                at: self.at,
                value: MAX_METADATA + 1,
                limit: MAX_METADATA,
            },
            io::ErrorKind::UnexpectedEof => GgufError::Truncated { at: self.at },
            _ => GgufError::Io(error),
        }
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    fn count(&mut self, what: &'static str, limit: u64) -> Result<u64, GgufError> {
        let at = self.at;
        let value = self.u64()?;
        if value > limit { Err(GgufError::TooLarge { what, at, value, limit }) } else { Ok(value) }
    }

    fn string(&mut self, what: &'static str, limit: u64) -> Result<Vec<u8>, GgufError> {
        let length = self.count(what, limit)?;
        let mut bytes = Vec::new();
        let read = self.file.by_ref().take(length).read_to_end(&mut bytes)? as u64;
        self.at += read;
        if read < length { Err(self.ended(io::ErrorKind::UnexpectedEof.into())) } else { Ok(bytes) }
    }

    fn strings(&mut self, key: &str) -> Result<Vec<Vec<u8>>, GgufError> {
        if self.u32()? != STRING {
            return Err(GgufError::WrongType { key: key.to_owned() });
        }
        let count = self.count("the number of tokens", MAX_TOKENS)?;
        let mut strings = Vec::new();
        let mut left = MAX_TOKEN_BYTES;
        for _ in 0..count {
            let string = self.string("a token's length", left)?;
            left -= string.len() as u64;
            strings.push(string);
        }
        Ok(strings)
    }

    fn numbers(&mut self, key: &str) -> Result<Vec<i32>, GgufError> {
        if !matches!(self.u32()?, 4 | 5) {
            return Err(GgufError::WrongType { key: key.to_owned() });
        }
        let count = self.count("the number of tokens", MAX_TOKENS)?;
        let mut numbers = Vec::new();
        for _ in 0..count {
            numbers.push(i32::from_le_bytes(self.array()?));
        }
        Ok(numbers)
    }

    fn skip(&mut self, key: &str, kind: u32, depth: u32) -> Result<(), GgufError> {
        let bad = |at| GgufError::BadType { key: key.to_owned(), at };
        if let Some(size) = fixed_size(kind) {
            return self.pass(size);
        }
        match kind {
            STRING => {
                let length = self.count("a text's length", MAX_METADATA)?;
                self.pass(length)
            }
            ARRAY if depth < MAX_DEPTH => {
                let inner = self.u32()?;
                let count = self.count("the length of a list", MAX_METADATA)?;
                match fixed_size(inner) {
                    Some(size) => self.pass(count * size),
                    None => (0..count).try_for_each(|_| self.skip(key, inner, depth + 1)),
                }
            }
            _ => Err(bad(self.at)),
        }
    }

    fn pass(&mut self, count: u64) -> Result<(), GgufError> {
        let passed = io::copy(&mut self.file.by_ref().take(count), &mut io::sink())?;
        self.at += passed;
        if passed < count { Err(self.ended(io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
    }
}

#[cfg(test)]
#[path = "gguf_tests.rs"]
mod tests;
