//! The memory that JSON takes as objects of the host language: an upper bound, from one pass over the text.
//!
//! A text of brackets takes thirty times its length, so the length alone does not bound the memory.

const OBJECT: u64 = 264;
const ARRAY: u64 = 104;
const MEMBER: u64 = 96;
const ITEM: u64 = 16;
const NUMBER: u64 = 32;
const TEXT: u64 = 64;
/// A string with one wide character takes four bytes per character.
const WIDE_TEXT: u64 = 96;
const WIDE_CHARACTER: u64 = 4;

/// An attribute with its name, in an object that has others.
pub fn attribute_bytes(name: &str, json: &str) -> u64 {
    MEMBER + text_bytes(name.as_bytes()) + json_bytes(json)
}

/// All attributes of an element.
pub fn attributes_bytes<'a>(attributes: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    attributes.fold(OBJECT, |sum, (name, json)| sum.saturating_add(attribute_bytes(name, json)))
}

/// Invalid JSON is counted as well: it is read before it is rejected.
pub fn json_bytes(json: &str) -> u64 {
    let bytes = json.as_bytes();
    let (mut at, mut sum) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'"' => text_end(bytes, at + 1),
            b'-' | b'0'..=b'9' => number_end(bytes, at + 1),
            _ => at + 1,
        };
        sum += match byte {
            b'{' => OBJECT,
            b'[' => ARRAY,
            b':' => MEMBER,
            b',' => ITEM,
            b'"' => text_bytes(&bytes[at + 1..end]),
            b'-' | b'0'..=b'9' => NUMBER + (end - at) as u64,
            _ => 0,
        };
        at = end;
    }
    sum
}

fn text_bytes(text: &[u8]) -> u64 {
    let wide = text.iter().any(|byte| *byte >= 0x80 || *byte == b'\\');
    let length = text.len() as u64;
    if wide { WIDE_TEXT + WIDE_CHARACTER * length } else { TEXT + length }
}

/// After the closing quote.
fn text_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    bytes[at..].iter().position(|byte| !is_part(byte)).map_or(bytes.len(), |more| at + more)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_kind_of_value_has_its_price() {
        assert_eq!(json_bytes("[]"), ARRAY);
        assert_eq!(json_bytes("[1,22]"), ARRAY + ITEM + 2 * NUMBER + 3);
        assert_eq!(json_bytes(r#"{"a":"b"}"#), OBJECT + MEMBER + 2 * (TEXT + 2));
        assert_eq!(json_bytes(r#""\"""#), WIDE_TEXT + WIDE_CHARACTER * 3);
        assert_eq!(json_bytes("true"), 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "\\PC{0,64}", quoted in "[\\\\\"a\u{e9}]{0,16}") {
            json_bytes(&text);
            json_bytes(&quoted);
        }
    }
}
