//! A list of words that whole tokens are compared with, trimmed and ignoring ASCII case.
//!
//! One lookup per token, however long the list, and no allocation for tokens of up to 64 bytes.

use std::collections::HashSet;

use foldhash::fast::RandomState;

const ON_STACK: usize = 64;

/// The words, lower-cased once.
#[derive(Debug, Default, Clone)]
pub struct Blocklist {
    words: HashSet<Box<[u8]>, RandomState>,
    /// Which lengths occur, one bit each; the last bit stands for all from 63 on. It rejects most tokens.
    lengths: u64,
}

impl Blocklist {
    /// Words are trimmed; blank ones are left out.
    pub fn new<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> Self {
        let words: HashSet<Box<[u8]>, RandomState> = words
            .into_iter()
            .map(|word| word.as_ref().trim().to_ascii_lowercase().into_bytes().into_boxed_slice())
            .filter(|word| !word.is_empty())
            .collect();
        let lengths = words.iter().fold(0, |seen, word| seen | length_bit(word.len()));
        Self { words, lengths }
    }

    /// The number of different words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether the trimmed token equals a word. A token that is not UTF-8 is trimmed of ASCII white space only.
    pub fn matches(&self, token: &[u8]) -> bool {
        let core = trim(token);
        if self.lengths & length_bit(core.len()) == 0 {
            return false;
        }
        if core.len() <= ON_STACK {
            let mut room = [0u8; ON_STACK];
            let lowered = &mut room[..core.len()];
            lowered.copy_from_slice(core);
            lowered.make_ascii_lowercase();
            return self.words.contains(&*lowered);
        }
        self.words.contains(core.to_ascii_lowercase().as_slice())
    }
}

fn length_bit(len: usize) -> u64 {
    1 << len.min(63)
}

fn trim(token: &[u8]) -> &[u8] {
    // White space beyond ASCII can only be at an edge where the token has a byte beyond ASCII.
    let beyond_ascii = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii());
    let core = trim_bytes(token);
    if (beyond_ascii(core.first()) || beyond_ascii(core.last()))
        && let Ok(text) = std::str::from_utf8(core)
    {
        return text.trim().as_bytes();
    }
    core
}

fn trim_bytes(token: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ');
    let Some(start) = token.iter().position(|byte| !is_space(byte)) else {
        return &[];
    };
    let end = token.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &token[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_matches_trimmed_and_without_regard_to_ascii_case() {
        let list = Blocklist::new(["Blocked_Word", " spam "]);
        assert!(list.matches(b"blocked_word"));
        assert!(list.matches(b" BLOCKED_WORD\n"));
        assert!(list.matches("\u{3000}spam\u{a0}".as_bytes()));
        assert!(list.matches(b"\x0bspam"));
    }

    #[test]
    fn a_part_of_a_word_or_a_longer_token_does_not_match() {
        let list = Blocklist::new(["spam"]);
        for token in ["spa", "spams", "spam.", "sp am", "", " "] {
            assert!(!list.matches(token.as_bytes()), "{token:?}");
        }
    }

    #[test]
    fn letters_beyond_ascii_keep_their_case() {
        let list = Blocklist::new(["Ärger"]);
        assert!(list.matches("ÄRGER".as_bytes()));
        assert!(!list.matches("ärger".as_bytes()));
    }

    #[test]
    fn blank_words_are_left_out_and_an_empty_list_matches_nothing() {
        let list = Blocklist::new(["", "  "]);
        assert!(list.is_empty());
        assert!(!list.matches(b""));
        assert!(!list.matches(b"  "));
    }

    #[test]
    fn words_longer_than_the_stack_room_match_too() {
        let word = "Long".repeat(50);
        let list = Blocklist::new([word.as_str()]);
        assert_eq!(list.len(), 1);
        assert!(list.matches(word.to_uppercase().as_bytes()));
        assert!(!list.matches("lonG".repeat(49).as_bytes()));
    }

    #[test]
    fn bytes_that_are_no_text_are_compared_as_bytes() {
        assert!(!Blocklist::new(["spam"]).matches(b" \xff\xfe "));
    }

    proptest! {
        #[test]
        fn it_agrees_with_trim_and_ignore_case(words in prop::collection::vec("[ a-cA-Cé]{0,3}", 0..6), token in "[ \\ta-cA-Cé\u{a0}]{0,4}") {
            let expected = !token.trim().is_empty()
                && words.iter().any(|word| word.trim().eq_ignore_ascii_case(token.trim()));
            prop_assert_eq!(Blocklist::new(&words).matches(token.as_bytes()), expected);
        }
    }
}
