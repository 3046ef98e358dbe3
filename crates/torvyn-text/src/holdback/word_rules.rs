//! Listed words in normal form, compiled into one automaton.
//!
//! For whole words, each pattern has a mark at both ends and wherever else a word may begin or end: the borders are
//! part of the match, and only text that begins at one waits.

use unicode_normalization::char::canonical_combining_class;

use super::automaton::{Automaton, TooLarge};
use super::normal::{borders, normalize};

/// Marks a border. No UTF-8 text contains this byte.
pub(super) const MARK: u8 = 0xff;

#[derive(Debug, thiserror::Error)]
pub enum WordsError {
    /// It would match nowhere, or everywhere.
    #[error("`words[{0}]` has no visible character")]
    Invisible(u32),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

#[derive(Debug, Clone, Copy, Default)]
pub struct WordOptions {
    /// A match has a border on both sides.
    pub whole: bool,
    /// Characters that look alike are equal.
    pub homoglyphs: bool,
}

#[derive(Debug)]
pub struct WordRules {
    pub(super) automaton: Automaton,
    pub(super) options: WordOptions,
    /// A word has several marks on one letter, which may come in any order.
    pub(super) reorders: bool,
    /// Bytes of the longest word.
    pub(super) longest: usize,
}

impl WordRules {
    /// Each word is a rule, numbered from 0.
    pub fn new<W: AsRef<str>>(
        words: impl IntoIterator<Item = W>,
        options: WordOptions,
    ) -> Result<Self, WordsError> {
        let (mut patterns, mut reorders) = (Vec::new(), false);
        for (rule, word) in words.into_iter().enumerate() {
            let spelled = normal_form(word.as_ref(), options.homoglyphs);
            if spelled.is_empty() {
                return Err(WordsError::Invisible(rule as u32));
            }
            reorders |=
                spelled.windows(2).any(|pair| pair.iter().all(|&c| canonical_combining_class(c) != 0));
            patterns.push(pattern(&spelled, options.whole));
        }
        let longest = patterns.iter().map(Vec::len).max().unwrap_or(0);
        Ok(Self { automaton: Automaton::new(&patterns)?, options, reorders, longest })
    }
}

fn normal_form(word: &str, homoglyphs: bool) -> Vec<char> {
    let mut spelled: Vec<char> = Vec::new();
    for c in word.chars() {
        normalize(c, homoglyphs, |c| {
            if c != ' ' || spelled.last().is_some_and(|&last| last != ' ') {
                spelled.push(c);
            }
        });
    }
    spelled.pop_if(|last| *last == ' ');
    for marks in spelled
        .chunk_by_mut(|&a, &b| (canonical_combining_class(a) == 0) == (canonical_combining_class(b) == 0))
    {
        marks.sort_by_key(|&c| canonical_combining_class(c));
    }
    spelled
}

fn pattern(spelled: &[char], whole: bool) -> Vec<u8> {
    let (mut pattern, mut before) = (Vec::new(), None);
    for &c in spelled {
        if whole && borders(before, Some(c)) {
            pattern.push(MARK);
        }
        pattern.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        before = Some(c);
    }
    if whole {
        pattern.push(MARK);
    }
    pattern
}
