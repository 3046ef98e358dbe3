//! Escapes text for JSON, mostly by copying runs.

/// Bytes that end a run: controls, `"`, `\`, and the first bytes of U+0085, U+2028 and U+2029.
const STOPS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[0xc2] = true;
    table[0xe2] = true;
    table
};
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `text` as the inside of a JSON string.
///
/// U+0085, U+2028 and U+2029 are valid there, but readers that split lines by Unicode's rules would cut at them.
#[inline]
pub fn escape(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| STOPS[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..at]);
        let taken = special(&rest[at..], out);
        rest = &rest[at + taken..];
    }
    out.extend_from_slice(rest);
}

/// Appends the escape for the start of `rest`; returns the length of what it replaces.
fn special(rest: &[u8], out: &mut Vec<u8>) -> usize {
    match rest {
        [b'"', ..] => out.extend_from_slice(b"\\\""),
        [b'\\', ..] => out.extend_from_slice(b"\\\\"),
        [b'\n', ..] => out.extend_from_slice(b"\\n"),
        [b'\r', ..] => out.extend_from_slice(b"\\r"),
        [b'\t', ..] => out.extend_from_slice(b"\\t"),
        [0xc2, 0x85, ..] => {
            out.extend_from_slice(b"\\u0085");
            return 2;
        }
        [0xe2, 0x80, last @ (0xa8 | 0xa9), ..] => {
            out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
            return 3;
        }
        [byte @ ..0x20, ..] => {
            out.extend_from_slice(b"\\u00");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        // The first byte of another character: it is copied, and its tail with what follows.
        _ => out.push(rest[0]),
    }
    1
}

/// Appends `text` as a JSON string.
pub fn quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

/// Appends a number.
#[inline]
pub fn number(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// `,"name":"value"`, or nothing.
pub fn optional(name: &str, value: Option<&str>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        quoted(value, out);
    }
}

/// A name with its colon, ready to be written, and a number.
pub fn count(name: &str, value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    number(value, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Cursor;
    use proptest::prelude::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        quoted(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_character_that_needs_it_is_escaped_once() {
        assert_eq!(written("a\"\\\n\r\t\0\u{1f}/é€\u{2027}"), r#""a\"\\\n\r\t\u0000\u001f/é€‧""#);
        assert_eq!(written("\u{85}\u{2028}\u{2029}"), r#""\u0085\u2028\u2029""#);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(text in any::<String>()) {
            let json = written(&text);
            prop_assert_eq!(Cursor::new(&json).string().unwrap(), text);
        }

        #[test]
        fn numbers_are_written_as_they_are(value in any::<u64>()) {
            let mut out = Vec::new();
            number(value, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }
}
