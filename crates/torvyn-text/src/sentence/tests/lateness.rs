//! How many characters after its stop a sentence is sent.

use super::golden::{HELD_OUT, RULES, cases};
use super::*;

/// For every boundary that is found and expected: characters from the stop, or the last word, to the one that decides
/// it.
fn lateness(file: &'static str) -> Vec<usize> {
    let mut late = Vec::new();
    for (_, sentences) in cases(file) {
        let text = sentences.concat();
        let mut expected = Vec::new();
        let mut end = 0;
        for sentence in &sentences {
            end += sentence.len();
            expected.push(text[..end].trim_end().len());
        }
        let mut splitter = Splitter::new(Options::default());
        let mut left = 0;
        for (index, c) in text.char_indices() {
            let seen = index + c.len_utf8();
            splitter.put(c.encode_utf8(&mut [0; 4]), |sentence| {
                left += sentence.len();
                let content = text[..left].trim_end().len();
                if expected.contains(&content) {
                    late.push(text[content..seen].chars().count());
                }
            });
        }
    }
    late
}

/// The space and a word of nine letters with the character after it.
const LATEST: usize = 11;

#[test]
fn a_sentence_leaves_when_the_next_word_begins_or_at_the_latest_when_it_ends() {
    for file in [RULES, HELD_OUT] {
        assert!(lateness(file).iter().all(|characters| *characters <= LATEST));
    }
}

#[test]
fn most_sentences_leave_at_the_first_letter_of_the_next() {
    for (file, expected) in [(RULES, (84, 108)), (HELD_OUT, (168, 186))] {
        let late = lateness(file);
        let at_first_letter = late.iter().filter(|characters| **characters <= 2).count();
        assert_eq!((at_first_letter, late.len()), expected, "{late:?}");
    }
}
