//! The subjects of an edge, and the partition of a key: the same in every process and every version.

use std::sync::Arc;

use blake2::digest::consts::U6;
use blake2::{Blake2b, Digest};

const NO_KEY: &str = "_";
/// What the last part of the subject on which a writer says that it has ended begins with.
const END: &str = "$end";
const SAFE_CHARS: usize = 64;
const SHORTENED_CHARS: usize = 32;

#[derive(Debug, Clone)]
pub struct EdgeNames {
    /// What the subjects of the edge begin with.
    pub prefix: String,
    pub partitions: u32,
}

impl EdgeNames {
    pub fn subject(&self, partition: u32, key: Option<&str>) -> Arc<str> {
        let prefix = &self.prefix;
        match key.filter(|key| !key.is_empty()) {
            None => format!("{prefix}.{partition}.{NO_KEY}").into(),
            Some(key) if is_safe(key) => format!("{prefix}.{partition}.{key}").into(),
            Some(key) => format!("{prefix}.{partition}.{}", shortened(key)).into(),
        }
    }

    /// One per writer: the limit of a subject must not keep a writer from ending because the end of another one is not
    /// read yet.
    pub fn end_subject(&self, partition: u32, writer: u32) -> Arc<str> {
        format!("{}.{partition}.{END}-{writer}", self.prefix).into()
    }

    pub fn partition(&self, key: &str) -> u32 {
        crc32fast::hash(key.as_bytes()) % self.partitions.max(1)
    }
}

fn is_safe_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_safe(key: &str) -> bool {
    (1..=SAFE_CHARS).contains(&key.len()) && key.bytes().all(is_safe_byte)
}

/// A long or odd key as a part of a subject, with a checksum.
fn shortened(key: &str) -> String {
    let mut safe = String::new();
    for letter in key.chars() {
        let letter = if letter.is_ascii() && is_safe_byte(letter as u8) { Some(letter) } else { None };
        match letter {
            Some(letter) => safe.push(letter),
            // One for all odd letters that follow each other, as long as no written `-` is between them.
            None if !safe.ends_with('\0') => safe.push('\0'),
            None => {}
        }
    }
    let safe = safe.replace('\0', "-");
    let head: String = safe.chars().take(SHORTENED_CHARS).collect();
    let digest: String =
        Blake2b::<U6>::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digest}", head.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_key_is_a_part_of_the_subject() {
        let names = EdgeNames { prefix: "tv.f.e.16".into(), partitions: 16 };
        assert_eq!(&*names.subject(3, Some("session-7")), "tv.f.e.16.3.session-7");
        assert_eq!(&*names.subject(0, None), "tv.f.e.16.0._");
        assert_eq!(&*names.subject(0, Some("")), "tv.f.e.16.0._");
        assert_eq!(&*names.end_subject(2, 1), "tv.f.e.16.2.$end-1");
    }

    /// Messages of other versions wait under these names.
    #[test]
    fn the_names_of_keys_never_change() {
        let names = EdgeNames { prefix: "p".into(), partitions: 16 };
        let known = [
            ("a b", "a-b-9cd5ae45f6c8", 3),
            ("ä.*", "-ea6db56495f6", 2),
            (
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-ba5f08609b65",
                9,
            ),
            ("-- odd --", "odd-eeec82a5d669", 13),
            ("日本", "-0c878e35b59d", 12),
            ("line\nbreak\0", "line-break-2bdf33e1ce0f", 10),
        ];
        for (key, name, partition) in known {
            assert_eq!(&*names.subject(0, Some(key)), format!("p.0.{name}"));
            assert_eq!(names.partition(key), partition, "{key}");
        }
    }

    #[test]
    fn an_odd_key_is_shortened_and_stays_unique() {
        let names = EdgeNames { prefix: "p".into(), partitions: 1 };
        let subjects = ["a b", "a  b", "a-b", "ä.*", "x.>"].map(|key| names.subject(0, Some(key)));
        for (at, subject) in subjects.iter().enumerate() {
            assert_eq!(subject.split('.').count(), 3, "{subject}");
            assert!(!subjects[..at].contains(subject), "{subject}");
        }
    }
}
