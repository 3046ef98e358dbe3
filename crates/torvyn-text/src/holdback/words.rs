//! Many words at once, whatever their case, as substrings or as whole words, exact over text in pieces.
//!
//! The automaton reads folded text. For whole words it also reads a mark wherever a word may begin or end, and each
//! word has one at both ends: so the borders are part of what is matched, and only what begins at one ever waits.

use std::sync::Arc;

use aho_corasick::automaton::StateID;

use super::automaton::{Automaton, TooLarge};
use super::fold::{borders, fold};
use crate::guard::{Found, View};

/// A byte that no UTF-8 has.
const MARK: u8 = 0xff;

#[derive(Debug)]
pub struct WordRules {
    automaton: Automaton,
    whole: bool,
    /// The rule that each pattern belongs to.
    rules: Vec<u32>,
}

impl WordRules {
    /// `words` are pairs of a rule and one way to spell it; blank ones are left out.
    pub fn new<W: AsRef<str>>(
        words: impl IntoIterator<Item = (u32, W)>,
        whole: bool,
    ) -> Result<Self, TooLarge> {
        let (mut patterns, mut rules) = (Vec::new(), Vec::new());
        for (rule, word) in words {
            let word = word.as_ref();
            if !word.is_empty() {
                patterns.push(spell(word, whole));
                rules.push(rule);
            }
        }
        Ok(Self { automaton: Automaton::new(&patterns)?, whole, rules })
    }
}

fn spell(word: &str, whole: bool) -> Vec<u8> {
    let mut spelled = Vec::with_capacity(word.len() + 2);
    let mut before = None;
    for c in word.chars() {
        if whole && borders(before, Some(c)) {
            spelled.push(MARK);
        }
        fold(c, |c| spelled.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()));
        before = Some(c);
    }
    if whole {
        spelled.push(MARK);
    }
    spelled
}

#[derive(Debug, Clone)]
pub struct WordSearch {
    rules: Arc<WordRules>,
    state: StateID,
    last: Option<char>,
}

impl WordSearch {
    pub fn new(rules: Arc<WordRules>) -> Self {
        let state = rules.automaton.start();
        Self { rules, state, last: None }
    }

    /// Reads the view from `from` on; answers from where on text may still become a match.
    pub fn advance(&mut self, view: View<'_>, from: usize, over: bool, found: &mut Vec<Found>) -> usize {
        let rules = Arc::clone(&self.rules);
        let mut at = from;
        for c in view.text[from..].chars() {
            if rules.whole && borders(self.last, Some(c)) {
                self.step(&rules, MARK);
                self.note(&rules, view, at, 1, at, found);
            }
            let end = at + c.len_utf8();
            if c.is_ascii() {
                self.step(&rules, c.to_ascii_lowercase() as u8);
                self.note(&rules, view, at, 1, end, found);
            } else {
                self.read_folded(&rules, c, view, at, found);
            }
            self.last = Some(c);
            at = end;
        }
        if over && rules.whole && self.last.is_some() {
            self.step(&rules, MARK);
            self.note(&rules, view, at, 1, at, found);
        }
        if over { at } else { rules.back(view, at, 0, rules.automaton.depth(self.state)) }
    }

    #[inline]
    fn step(&mut self, rules: &WordRules, byte: u8) {
        self.state = rules.automaton.step(self.state, byte);
    }

    fn read_folded(&mut self, rules: &WordRules, c: char, view: View<'_>, at: usize, found: &mut Vec<Found>) {
        let mut read = 0;
        fold(c, |folded| {
            for &byte in folded.encode_utf8(&mut [0; 4]).as_bytes() {
                self.step(rules, byte);
                read += 1;
                self.note(rules, view, at, read, at + c.len_utf8(), found);
            }
        });
    }

    /// Notes a match that ends after `read` bytes of what stands for the character at `at`.
    #[inline]
    fn note(
        &self,
        rules: &WordRules,
        view: View<'_>,
        at: usize,
        read: usize,
        end: usize,
        found: &mut Vec<Found>,
    ) {
        if !rules.automaton.is_match(self.state) {
            return;
        }
        // The longest of those that end here has all the others in it.
        if let Some((pattern, len)) = rules.automaton.matches(self.state).max_by_key(|&(_, len)| len) {
            let start = rules.back(view, at, read, len);
            found.push(Found { start, end, rule: rules.rules[pattern], goes_on: false });
        }
    }

    pub fn clear(&mut self) {
        self.state = self.rules.automaton.start();
        self.last = None;
    }
}

impl WordRules {
    /// Where the character begins that lies `len` bytes of folded text, marks included, before `at`, when `read` of
    /// them have been counted.
    fn back(&self, view: View<'_>, at: usize, read: usize, len: usize) -> usize {
        let (mut at, mut read) = (at, read);
        while read < len
            && let Some(c) = view.text[..at].chars().next_back()
        {
            at -= c.len_utf8();
            fold(c, |folded| read += folded.len_utf8());
            let before = view.text[..at].chars().next_back().or(view.before);
            if self.whole && borders(before, Some(c)) {
                read += 1;
            }
        }
        at
    }
}
