//! Frames with new text as protobuf messages (`torvyn/v1/inference.proto`). Other frames are rare, and encoded by the
//! code that protoc generates.

use crate::frame::Kind;

/// Fields of `Frame` and `Delta`: their numbers with their wire types.
const SEQ: u8 = 1 << 3;
const DELTA: u8 = (3 << 3) | 2;
const INDEX: u8 = 1 << 3;
const TEXT: u8 = (2 << 3) | 2;
const REASONING: u8 = (3 << 3) | 2;

/// A `Frame` with a `Delta` that has new text of a choice.
pub fn text(seq: u64, index: u32, kind: Kind, text: &str, out: &mut Vec<u8>) {
    let index_bytes = if index == 0 { 0 } else { 1 + varint_bytes(u64::from(index)) };
    let delta_bytes = index_bytes + 1 + varint_bytes(text.len() as u64) + text.len();
    out.reserve(delta_bytes + 16);
    number(SEQ, seq, out);
    out.push(DELTA);
    varint(delta_bytes as u64, out);
    number(INDEX, u64::from(index), out);
    out.push(if kind == Kind::Text { TEXT } else { REASONING });
    varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// A field that is left out when it is 0.
fn number(field: u8, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        out.push(field);
        varint(value, out);
    }
}

pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint_bytes(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(seq: u64, index: u32, kind: Kind, words: &str) -> Vec<u8> {
        let mut out = Vec::new();
        text(seq, index, kind, words, &mut out);
        out
    }

    #[test]
    fn fields_that_are_0_are_left_out_and_an_empty_text_is_not() {
        assert_eq!(encoded(0, 0, Kind::Text, ""), [DELTA, 2, TEXT, 0]);
        assert_eq!(encoded(1, 2, Kind::Reasoning, "a"), [SEQ, 1, DELTA, 5, INDEX, 2, REASONING, 1, b'a']);
    }

    #[test]
    fn the_size_of_a_number_is_the_size_that_it_is_written_with() {
        for bits in 0..64 {
            for value in [(1 << bits) - 1, 1 << bits] {
                let mut out = Vec::new();
                varint(value, &mut out);
                assert_eq!(varint_bytes(value), out.len(), "{value}");
            }
        }
    }

    #[test]
    fn long_texts_and_large_numbers_have_longer_lengths() {
        let words = "x".repeat(300);
        let made = encoded(300, 200, Kind::Text, &words);
        assert_eq!(made[..3], [SEQ, 0xac, 0x02]);
        assert_eq!(made.len(), 3 + 3 + 3 + 3 + 300);
    }
}
