//! Incremental UTF-8 decoding: complete characters are sent at once, at most three bytes wait.
//!
//! An invalid byte becomes U+FFFD as soon as it is known, one per maximal subpart, so the whole equals
//! `String::from_utf8_lossy` of the joined input, however it is split. Nothing is decoded twice.

/// Decodes a stream of bytes. `finish` resets it.
#[derive(Debug, Default, Clone, Copy)]
pub struct Utf8Decoder {
    tail: [u8; 4],
    waiting: usize,
}

impl Utf8Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends to `out` every character that `bytes` completes.
    pub fn put(&mut self, bytes: &[u8], out: &mut String) {
        self.put_with(bytes, out, &mut |_, out| out.push(char::REPLACEMENT_CHARACTER));
    }

    /// The same, but each maximal subpart that can never become a character is passed to `bad`.
    pub fn put_with(&mut self, bytes: &[u8], out: &mut String, bad: &mut impl FnMut(&[u8], &mut String)) {
        let rest = self.complete_tail(bytes, out, bad);
        let mut chunks = rest.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            out.push_str(chunk.valid());
            let broken = chunk.invalid();
            if broken.is_empty() {
                continue;
            }
            if chunks.peek().is_none() && is_unfinished(broken) {
                self.tail[..broken.len()].copy_from_slice(broken);
                self.waiting = broken.len();
            } else {
                bad(broken, out);
            }
        }
    }

    /// Ends the input: an incomplete character becomes one U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        if self.waiting > 0 {
            out.push(char::REPLACEMENT_CHARACTER);
            self.waiting = 0;
        }
    }

    /// The bytes of an incomplete character.
    pub fn incomplete(&self) -> &[u8] {
        &self.tail[..self.waiting]
    }

    /// The number of bytes of an incomplete character: 0 to 3.
    pub fn held_bytes(&self) -> usize {
        self.waiting
    }

    /// Drops the incomplete character.
    pub fn clear(&mut self) {
        self.waiting = 0;
    }

    /// Completes the waiting character byte by byte; returns the bytes that are not part of it.
    fn complete_tail<'a>(
        &mut self,
        bytes: &'a [u8],
        out: &mut String,
        bad: &mut impl FnMut(&[u8], &mut String),
    ) -> &'a [u8] {
        let mut rest = bytes;
        while self.waiting > 0 {
            let Some((&byte, after)) = rest.split_first() else {
                break;
            };
            self.tail[self.waiting] = byte;
            match std::str::from_utf8(&self.tail[..=self.waiting]) {
                Ok(character) => {
                    out.push_str(character);
                    self.waiting = 0;
                }
                Err(error) if error.error_len().is_none() => self.waiting += 1,
                Err(_) => {
                    // The waiting bytes were valid, so this byte breaks the character and may begin another.
                    bad(&self.tail[..self.waiting], out);
                    self.waiting = 0;
                    break;
                }
            }
            rest = after;
        }
        rest
    }
}

fn is_unfinished(bad: &[u8]) -> bool {
    matches!(std::str::from_utf8(bad), Err(error) if error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> String {
        let mut decoder = Utf8Decoder::new();
        let mut out = String::new();
        for piece in pieces {
            decoder.put(piece, &mut out);
            assert!(decoder.held_bytes() <= 3);
        }
        decoder.finish(&mut out);
        out
    }

    #[test]
    fn a_character_leaves_with_its_last_byte() {
        let mut decoder = Utf8Decoder::new();
        let mut out = String::new();
        for &byte in &"😀".as_bytes()[..3] {
            decoder.put(&[byte], &mut out);
            assert_eq!(out, "");
        }
        decoder.put(&"😀".as_bytes()[3..], &mut out);
        assert_eq!(out, "😀");
        assert_eq!(decoder.held_bytes(), 0);
    }

    #[test]
    fn a_bad_byte_is_replaced_at_once_and_does_not_eat_its_neighbour() {
        let mut decoder = Utf8Decoder::new();
        let mut out = String::new();
        decoder.put(b"\xe3\x81", &mut out);
        decoder.put(b"a", &mut out);
        assert_eq!(out, "\u{fffd}a");
    }

    #[test]
    fn an_unfinished_character_at_the_end_is_one_replacement() {
        assert_eq!(decode(&[b"ok\xf0\x9f", b"\x98"]), "ok\u{fffd}");
    }

    #[test]
    fn forbidden_forms_give_one_replacement_for_each_maximal_subpart() {
        for form in [&b"\xc0\xaf"[..], b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\xaf"] {
            let one_by_one: Vec<&[u8]> = form.chunks(1).collect();
            assert_eq!(decode(&one_by_one), String::from_utf8_lossy(form));
        }
    }

    #[test]
    fn clear_forgets_the_waiting_bytes() {
        let mut decoder = Utf8Decoder::new();
        let mut out = String::new();
        decoder.put(b"\xf0\x9f", &mut out);
        decoder.clear();
        decoder.finish(&mut out);
        assert_eq!(out, "");
    }

    fn near_utf8() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 1..3),
            any::<char>().prop_map(|c| {
                let mut bytes = c.to_string().into_bytes();
                bytes.pop();
                bytes
            }),
            prop::sample::select(vec![0xe0u8, 0xed, 0xf0, 0xf4, 0x80, 0x9f, 0xa0, 0xc2])
                .prop_map(|b| vec![b]),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_split_decodes_to_the_lossy_whole(bytes in near_utf8(), sizes in prop::collection::vec(1usize..6, 1..20)) {
            let mut pieces: Vec<&[u8]> = Vec::new();
            let mut rest = &bytes[..];
            for size in sizes.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(decode(&pieces), String::from_utf8_lossy(&bytes));
        }
    }
}
