//! What a guard looks for, and what it does with a match.

use std::sync::Arc;

use super::pattern::Patterns;
use super::pike::PatternSearch;
use super::{Found, View};
use crate::holdback::{WordRules, WordSearch};

/// What happens to a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is removed.
    Drop,
    /// It is replaced.
    Replace,
    /// The stream ends before it.
    Block,
}

/// When text may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// When it can no longer be part of a match.
    Hold,
    /// At once; of a match that began in text already sent, the rest is acted on.
    Optimistic,
    /// At once; matches are counted and nothing else happens.
    Shadow,
}

/// Rules, created once and shared by all streams.
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

/// The state of the rules in one stream.
#[derive(Debug, Clone)]
pub enum Search {
    Words(WordSearch),
    Patterns(Box<PatternSearch>),
}

impl Search {
    /// Reads on; `from` is where new text begins in the view. Returns where text may still become part of a match.
    /// Matches are reported in the order in which they end.
    #[inline]
    pub fn advance(&mut self, view: View<'_>, from: usize, over: bool, found: &mut Vec<Found>) -> usize {
        match self {
            Search::Words(search) => search.advance(view, from, over, found),
            Search::Patterns(search) => search.advance(view, over, found),
        }
    }

    /// The first bytes of the view were dropped.
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
    /// The replacement of a match: one per rule, or one for all.
    pub replacements: Vec<String>,
}

/// A match as it may be reported: never its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    pub rule: u32,
    /// Its position and length, in characters of the stream.
    pub position: u64,
    pub length: u64,
    /// How many of its characters were already sent.
    pub exposed: u64,
}

/// A piece of output. Positions are in bytes of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made<'a> {
    Text {
        start: u64,
        text: &'a str,
    },
    /// `text`, which may be empty, replaces what was there.
    Instead {
        start: u64,
        end: u64,
        text: &'a str,
    },
}
