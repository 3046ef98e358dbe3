//! Aho-Corasick, byte by byte. In every state the length of the suffix that may still match is known.

use std::collections::HashMap;

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::{Anchored, MatchKind, PatternID, StartKind, dfa, nfa::contiguous};
use foldhash::fast::RandomState;

/// Patterns up to so many bytes get a full table; more get a smaller and slower automaton.
const TABLE_LIMIT: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
#[error("the strings are too many or too long: {0}")]
pub struct TooLarge(String);

#[derive(Debug)]
enum Machine {
    Table(dfa::DFA),
    Compact(contiguous::NFA),
}

#[derive(Debug)]
pub struct Automaton {
    machine: Machine,
    start: StateID,
    /// How much of a state's prefix may still grow into a pattern.
    depths: HashMap<StateID, u32, RandomState>,
}

impl Automaton {
    /// No pattern may be empty: it would match everywhere.
    pub fn new<P: AsRef<[u8]>>(patterns: &[P]) -> Result<Self, TooLarge> {
        let total: usize = patterns.iter().map(|pattern| pattern.as_ref().len()).sum();
        let refused = |error: aho_corasick::BuildError| TooLarge(error.to_string());
        let machine = if total <= TABLE_LIMIT {
            let mut builder = dfa::DFA::builder();
            builder.match_kind(MatchKind::Standard).start_kind(StartKind::Unanchored).prefilter(false);
            Machine::Table(builder.build(patterns).map_err(refused)?)
        } else {
            let mut builder = contiguous::NFA::builder();
            builder.match_kind(MatchKind::Standard).prefilter(false);
            Machine::Compact(builder.build(patterns).map_err(refused)?)
        };
        let start = match &machine {
            Machine::Table(dfa) => dfa.start_state(Anchored::No),
            Machine::Compact(nfa) => nfa.start_state(Anchored::No),
        };
        let start = start.map_err(|error| TooLarge(error.to_string()))?;
        let mut made = Self { machine, start, depths: HashMap::default() };
        made.measure(patterns);
        Ok(made)
    }

    /// A pattern's own prefix leads to the state of exactly this prefix: the longest suffix is the whole.
    fn measure<P: AsRef<[u8]>>(&mut self, patterns: &[P]) {
        let mut ends = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let (mut state, bytes) = (self.start, pattern.as_ref());
            for (at, &byte) in bytes.iter().enumerate() {
                state = self.step(state, byte);
                if at + 1 < bytes.len() {
                    self.depths.insert(state, at as u32 + 1);
                }
            }
            ends.push((bytes, state));
        }
        // A complete pattern that begins nothing longer does not wait: only a shorter suffix of it may still grow.
        ends.sort_by_key(|(bytes, _)| bytes.len());
        for (bytes, end) in ends {
            if !self.depths.contains_key(&end) {
                let shorter = bytes[1..].iter().fold(self.start, |state, &byte| self.step(state, byte));
                self.depths.insert(end, self.depth(shorter) as u32);
            }
        }
    }

    #[inline]
    pub fn start(&self) -> StateID {
        self.start
    }

    #[inline]
    pub fn step(&self, state: StateID, byte: u8) -> StateID {
        match &self.machine {
            Machine::Table(dfa) => dfa.next_state(Anchored::No, state, byte),
            Machine::Compact(nfa) => nfa.next_state(Anchored::No, state, byte),
        }
    }

    #[inline]
    pub fn is_match(&self, state: StateID) -> bool {
        match &self.machine {
            Machine::Table(dfa) => dfa.is_match(state),
            Machine::Compact(nfa) => nfa.is_match(state),
        }
    }

    /// The patterns that end in a matching state: index and length in bytes.
    pub fn matches(&self, state: StateID) -> impl Iterator<Item = (usize, usize)> + '_ {
        let count = match &self.machine {
            Machine::Table(dfa) => dfa.match_len(state),
            Machine::Compact(nfa) => nfa.match_len(state),
        };
        (0..count).map(move |at| {
            let pattern: PatternID = match &self.machine {
                Machine::Table(dfa) => dfa.match_pattern(state, at),
                Machine::Compact(nfa) => nfa.match_pattern(state, at),
            };
            let len = match &self.machine {
                Machine::Table(dfa) => dfa.pattern_len(pattern),
                Machine::Compact(nfa) => nfa.pattern_len(pattern),
            };
            (pattern.as_usize(), len)
        })
    }

    /// The longest suffix of the input, in bytes, that begins a pattern and is shorter than it.
    #[inline]
    pub fn depth(&self, state: StateID) -> usize {
        if state == self.start { 0 } else { self.depths.get(&state).map_or(0, |&depth| depth as usize) }
    }
}
