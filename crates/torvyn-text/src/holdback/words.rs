//! Finds many words at once in normal form, as substrings or as whole words, exactly, in split text.
//!
//! The automaton reads the normal form, and for whole words a mark wherever a word may begin or end. Buffered text and
//! matches are stretches of the original text.

use std::sync::Arc;

use aho_corasick::automaton::StateID;
use unicode_normalization::char::canonical_combining_class;

use super::normal::{borders, is_continuation, normalize};
use super::origin::Origins;
use super::word_rules::{MARK, WordRules};
use crate::guard::{Found, View};

/// So many invisible characters in a row separate words: the buffer must be bounded.
pub const GAP_LIMIT: u32 = 1024;

/// So many marks on one letter are sorted, as in Unicode's stream-safe format.
const MARKS_LIMIT: usize = 30;

#[derive(Debug, Clone)]
pub struct WordSearch {
    rules: Arc<WordRules>,
    state: StateID,
    /// The last character of the normal form.
    last: Option<char>,
    origins: Origins,
    /// How many characters in a row have added nothing.
    gap: u32,
    /// The marks on the last letter, in order, and the state before them.
    marks: Vec<char>,
    before_marks: StateID,
    /// The normal form of one character.
    expansion: Vec<char>,
}

impl WordSearch {
    pub fn new(rules: Arc<WordRules>) -> Self {
        let state = rules.automaton.start();
        Self {
            rules,
            state,
            last: None,
            origins: Origins::default(),
            gap: 0,
            marks: Vec::new(),
            before_marks: state,
            expansion: Vec::new(),
        }
    }

    /// Reads the view from `from`; returns where text may still become a match.
    pub fn advance(&mut self, view: View<'_>, from: usize, over: bool, found: &mut Vec<Found>) -> usize {
        let rules = Arc::clone(&self.rules);
        let mut at = from;
        for c in view.text[from..].chars() {
            let place = Place { text: view.text, at, end: at + c.len_utf8() };
            if is_plain(c, self.last) {
                self.read_plain(&rules, c, place, found);
            } else {
                self.read_other(&rules, c, place, found);
            }
            at = place.end;
        }
        if over {
            self.end_word(&rules, Place { text: view.text, at, end: at }, found);
            return at;
        }
        // Later marks may sort before those that were read.
        let depth = if self.marks.is_empty() {
            rules.automaton.depth(self.state)
        } else {
            let marks: usize = self.marks.iter().map(|mark| mark.len_utf8()).sum();
            rules.automaton.depth(self.state).max(rules.automaton.depth(self.before_marks) + marks)
        };
        self.origins.back(view.text, at, depth, rules.options.whole)
    }

    /// An ASCII character that is one byte of normal form.
    #[inline]
    fn read_plain(&mut self, rules: &WordRules, c: char, place: Place<'_>, found: &mut Vec<Found>) {
        let c = if c <= ' ' { ' ' } else { c };
        if rules.options.whole && borders(self.last, Some(c)) {
            self.read_border(rules, place, 0, found);
        }
        self.step(rules, c.to_ascii_lowercase() as u8);
        self.note(rules, place, 1, found);
        self.last = Some(c);
        self.gap = 0;
        if rules.reorders {
            self.marks.clear();
        }
    }

    fn read_other(&mut self, rules: &WordRules, c: char, place: Place<'_>, found: &mut Vec<Found>) {
        let mut expansion = std::mem::take(&mut self.expansion);
        expansion.clear();
        normalize(c, rules.options.homoglyphs, |c| expansion.push(c));
        let mut read = 0;
        for (index, &c) in expansion.iter().enumerate() {
            if c == ' ' && self.last == Some(' ') {
                continue;
            }
            if rules.options.whole && borders(self.last, Some(c)) {
                self.read_border(rules, place, read, found);
                read += 1;
            }
            read += self.read_normal(rules, c);
            if !expansion.get(index + 1).is_some_and(|&next| is_continuation(next)) {
                self.note(rules, place, read, found);
            }
        }
        self.expansion = expansion;
        self.gap = if read == 0 { self.gap.saturating_add(1) } else { 0 };
        if self.gap == GAP_LIMIT {
            self.end_word(rules, Place { end: place.at, ..place }, found);
            self.restart();
        }
        self.origins.record(place.at, place.end, read as u32, self.last, 2 * rules.longest + 2);
    }

    /// Reads one character of the normal form; returns its length in bytes.
    fn read_normal(&mut self, rules: &WordRules, c: char) -> usize {
        if !rules.reorders || canonical_combining_class(c) == 0 {
            self.marks.clear();
            self.read_bytes(rules, c);
        } else {
            self.read_mark(rules, c);
        }
        self.last = Some(c);
        c.len_utf8()
    }

    /// Sorts a mark among those on the same letter, and reads those after it again.
    fn read_mark(&mut self, rules: &WordRules, mark: char) {
        if self.marks.is_empty() || self.marks.len() >= MARKS_LIMIT {
            self.marks.clear();
            self.before_marks = self.state;
        }
        let class = canonical_combining_class(mark);
        let at = self.marks.partition_point(|&other| canonical_combining_class(other) <= class);
        self.marks.insert(at, mark);
        if at + 1 == self.marks.len() {
            return self.read_bytes(rules, mark);
        }
        self.state = self.before_marks;
        for index in 0..self.marks.len() {
            self.read_bytes(rules, self.marks[index]);
        }
    }

    #[inline]
    fn read_bytes(&mut self, rules: &WordRules, c: char) {
        c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| self.step(rules, byte));
    }

    /// Reads a border before a character of which `read` bytes were read.
    #[inline]
    fn read_border(&mut self, rules: &WordRules, place: Place<'_>, read: usize, found: &mut Vec<Found>) {
        self.step(rules, MARK);
        if rules.automaton.is_match(self.state) {
            // Invisible characters after a word are not part of it.
            let end = if read == 0 { self.origins.visible_end(place.at) } else { place.end };
            self.note(rules, Place { end, ..place }, read + 1, found);
        }
    }

    fn end_word(&mut self, rules: &WordRules, place: Place<'_>, found: &mut Vec<Found>) {
        if rules.options.whole && self.last.is_some() {
            self.read_border(rules, place, 0, found);
        }
    }

    #[inline]
    fn step(&mut self, rules: &WordRules, byte: u8) {
        self.state = rules.automaton.step(self.state, byte);
    }

    /// Notes a match that ends after `read` bytes of the normal form of the character at a position.
    #[inline]
    fn note(&self, rules: &WordRules, place: Place<'_>, read: usize, found: &mut Vec<Found>) {
        if !rules.automaton.is_match(self.state) {
            return;
        }
        // The longest of those that end here contains all others.
        if let Some((rule, len)) = rules.automaton.matches(self.state).max_by_key(|&(_, len)| len) {
            let before = len.saturating_sub(read);
            let start = self.origins.back(place.text, place.at, before, rules.options.whole);
            found.push(Found { start, end: place.end, rule: rule as u32, goes_on: false });
        }
    }

    /// The first `bytes` of the view were dropped.
    #[inline]
    pub fn forget(&mut self, bytes: usize) {
        self.origins.forget(bytes);
    }

    pub fn clear(&mut self) {
        self.restart();
        self.gap = 0;
        self.origins.clear();
    }

    fn restart(&mut self) {
        self.state = self.rules.automaton.start();
        self.last = None;
        self.marks.clear();
    }
}

/// A character of the view.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

/// Whether a character is one byte of normal form: visible ASCII, or white space after something else.
#[inline]
fn is_plain(c: char, last: Option<char>) -> bool {
    matches!(c, '!'..='~') || (matches!(c, ' ' | '\t'..='\r') && last != Some(' '))
}
