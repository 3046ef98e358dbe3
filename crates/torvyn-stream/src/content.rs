//! Content types. An element carries two bytes: the index of a well-known type, or a mark that the payload carries the
//! name.
//!
//! No table of names grows: a name lives as long as the payloads that carry it, so no flow can use up what another one
//! needs.

use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentType(u16);

/// Well-known types, which cost nothing to carry. The first two are the defaults for text and bytes.
const WELL_KNOWN: [&str; 32] = [
    "text/plain; charset=utf-8",
    "application/octet-stream",
    "text/event-stream",
    "application/x-ndjson",
    "application/json",
    "text/plain",
    "text/html",
    "text/html; charset=utf-8",
    "text/markdown",
    "text/css",
    "text/csv",
    "text/xml",
    "application/json; charset=utf-8",
    "application/jsonl",
    "application/xml",
    "application/yaml",
    "application/toml",
    "application/cbor",
    "application/msgpack",
    "application/protobuf",
    "application/x-protobuf",
    "application/pdf",
    "application/zip",
    "application/gzip",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "video/mp4",
];

/// The longest name in bytes. Real names are shorter than 128 bytes; parameters may add to that.
pub const LONGEST_NAME: usize = 256;

impl ContentType {
    pub const TEXT: ContentType = ContentType(0);
    pub const BINARY: ContentType = ContentType(1);
    pub const EVENT_STREAM: ContentType = ContentType(2);
    pub const NDJSON: ContentType = ContentType(3);
    pub const JSON: ContentType = ContentType(4);
    /// The name is in the payload.
    pub(crate) const LABELLED: ContentType = ContentType(u16::MAX);

    fn well_known(name: &str) -> Option<Self> {
        WELL_KNOWN.iter().position(|known| *known == name).map(|index| Self(index as u16))
    }

    /// The position of a well-known type, which never changes.
    pub fn index(self) -> u16 {
        self.0
    }

    /// The name of a well-known type.
    pub fn name(self) -> Option<&'static str> {
        WELL_KNOWN.get(usize::from(self.0)).copied()
    }
}

/// A content type outside an element, with its name.
#[derive(Debug, Clone)]
pub enum ContentName {
    WellKnown(ContentType),
    Other(Arc<str>),
}

impl ContentName {
    pub const TEXT: ContentName = ContentName::WellKnown(ContentType::TEXT);
    pub const BINARY: ContentName = ContentName::WellKnown(ContentType::BINARY);

    /// `None` when the name is too long.
    pub fn new(name: &str) -> Option<Self> {
        if let Some(known) = ContentType::well_known(name) {
            return Some(Self::WellKnown(known));
        }
        (name.len() <= LONGEST_NAME).then(|| Self::Other(Arc::from(name)))
    }

    /// The well-known type at a position.
    pub fn well_known(index: u16) -> Option<Self> {
        let content_type = ContentType(index);
        content_type.name().map(|_| Self::WellKnown(content_type))
    }

    pub fn as_str(&self) -> &str {
        match self {
            // A labelled payload's mark is never a `ContentName`.
            Self::WellKnown(known) => known.name().unwrap_or(""),
            Self::Other(name) => name,
        }
    }

    pub fn is(&self, content_type: ContentType) -> bool {
        matches!(self, Self::WellKnown(known) if *known == content_type)
    }

    /// The bytes that the name takes next to its payload.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::WellKnown(_) => 0,
            Self::Other(name) => name.len(),
        }
    }
}

impl PartialEq for ContentName {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::WellKnown(one), Self::WellKnown(two)) => one == two,
            (Self::Other(one), Self::Other(two)) => one == two,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_known_name_is_an_index() {
        assert_eq!(ContentName::new("text/plain; charset=utf-8"), Some(ContentName::TEXT));
        assert_eq!(ContentName::new("application/octet-stream"), Some(ContentName::BINARY));
        for (name, content_type) in [
            ("text/event-stream", ContentType::EVENT_STREAM),
            ("application/x-ndjson", ContentType::NDJSON),
            ("application/json", ContentType::JSON),
        ] {
            assert!(ContentName::new(name).is_some_and(|found| found.is(content_type)));
            assert_eq!(content_type.name(), Some(name));
        }
    }

    #[test]
    fn any_other_name_is_kept_as_it_is() {
        let name = ContentName::new("application/vnd.example");
        assert_eq!(name.as_ref().map(ContentName::as_str), Some("application/vnd.example"));
        assert_eq!(name, ContentName::new("application/vnd.example"));
        assert_ne!(name, ContentName::new("application/vnd.other"));
    }

    #[test]
    fn a_name_of_more_than_256_bytes_is_refused() {
        assert!(ContentName::new(&"x".repeat(LONGEST_NAME)).is_some());
        assert!(ContentName::new(&"x".repeat(LONGEST_NAME + 1)).is_none());
    }

    #[test]
    fn no_number_of_names_uses_anything_up() {
        for number in 0..100_000 {
            let name = format!("application/x-{number}");
            assert_eq!(ContentName::new(&name).as_ref().map(ContentName::as_str), Some(&*name));
        }
    }
}
