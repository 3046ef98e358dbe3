//! What a guard looks for, and what it does where it finds it.

use std::sync::Arc;

use super::pattern::Patterns;
use super::pike::PatternSearch;
use super::{Found, View};
use crate::holdback::{WordRules, WordSearch};

/// What becomes of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is left out.
    Drop,
    /// Its replacement stands in its place.
    Replace,
    /// The stream ends before it.
    Block,
}

/// When text may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// When it can no longer be part of a match.
    Hold,
    /// At once; of a match that began in text that has left, the rest is acted on.
    Optimistic,
    /// At once; matches are counted and nothing is done.
    Shadow,
}

/// Rules, made once and shared by all streams.
#[derive(Debug, Clone)]
pub enum Rules {
    Words(Arc<WordRules>),
    Patterns(Arc<Patterns>),
}

impl Rules {
    pub fn search(&self) -> Search {
        match self {
            Rules::Words(words) => Search::Words(WordSearch::new(words.clone())),
            Rules::Patterns(patterns) => Search::Patterns(Box::new(PatternSearch::new(patterns.clone()))),
        }
    }
}

/// Rules at one place of one stream.
#[derive(Debug, Clone)]
pub enum Search {
    Words(WordSearch),
    Patterns(Box<PatternSearch>),
}

impl Search {
    /// Reads on; `from` is where the text begins that was not in the view before. Answers from where on text may still
    /// become part of a match. Matches are told in the order in which they end.
    #[inline]
    pub fn advance(&mut self, view: View<'_>, from: usize, over: bool, found: &mut Vec<Found>) -> usize {
        match self {
            Search::Words(search) => search.advance(view, from, over, found),
            Search::Patterns(search) => search.advance(view, over, found),
        }
    }

    /// The first text of the view is gone.
    #[inline]
    pub fn forget(&mut self, gone: &str) {
        match self {
            Search::Words(search) => search.forget(gone.len()),
            Search::Patterns(search) => search.forget(gone),
        }
    }

    pub fn clear(&mut self) {
        match self {
            Search::Words(search) => search.clear(),
            Search::Patterns(search) => search.clear(),
        }
    }
}

#[derive(Debug)]
pub struct Settings {
    pub rules: Rules,
    pub action: Action,
    pub policy: Policy,
    /// What stands in the place of a match: one for each rule, or one for all.
    pub replacements: Vec<String>,
}

/// A match, as it may be told: never its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    pub rule: u32,
    /// Where it began and how long it was, in characters of the stream.
    pub position: u64,
    pub length: u64,
    /// How many of its characters had left already.
    pub exposed: u64,
}

/// Something that leaves. Places are in bytes of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made<'a> {
    Text {
        start: u64,
        text: &'a str,
    },
    /// `text`, which may be empty, in the place of what lay there.
    Instead {
        start: u64,
        end: u64,
        text: &'a str,
    },
}
