//! Regular expressions for a guard: parsed, checked and compiled into one automaton. Matching takes linear time.

use std::collections::HashSet;

use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::look::LookSet;
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;

use super::candidate::{Begins, Check};

/// The size limit of an automaton. Counted repetitions of large classes make one large.
const NFA_LIMIT_BYTES: usize = 4 << 20;

/// One expression of a rule, and the check of its candidates.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    pub pattern: &'a str,
    pub rule: u32,
    pub check: Option<Check>,
    pub begins: Option<Begins>,
}

/// A way to begin a match with a certain byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The assertions that must hold in front of it.
    pub(super) looks: LookSet,
    pub(super) pattern: usize,
    /// The state after the byte.
    pub(super) next: StateID,
}

#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("{message}")]
    Syntax { index: usize, message: String },
    #[error("it matches empty text")]
    Empty { index: usize },
    #[error("it needs more than {NFA_LIMIT_BYTES} bytes")]
    TooLarge { index: usize },
}

impl PatternError {
    /// Which pattern is invalid.
    pub fn index(&self) -> usize {
        match self {
            PatternError::Syntax { index, .. }
            | PatternError::Empty { index }
            | PatternError::TooLarge { index } => *index,
        }
    }
}

#[derive(Debug)]
pub struct Patterns {
    pub(super) nfa: NFA,
    /// The ways to begin a match, by its first byte, in order of preference.
    pub(super) entries: Vec<Vec<Entry>>,
    pub(super) checks: Vec<Option<Check>>,
    pub(super) begins: Vec<Option<Begins>>,
    /// The assertions in front of all the entries.
    pub(super) entry_looks: LookSet,
    /// A check may read the text before a match.
    pub(super) needs_left: bool,
    /// The rule that each pattern belongs to.
    pub(super) rules: Vec<u32>,
    /// The number of characters within which a match is certain to be found.
    pub(super) window: u64,
}

impl Patterns {
    /// Each pattern is its own rule.
    pub fn new<P: AsRef<str>>(patterns: &[P], window: u64) -> Result<Self, PatternError> {
        let shapes: Vec<Shape<'_>> = (0..)
            .zip(patterns)
            .map(|(rule, pattern)| Shape { pattern: pattern.as_ref(), rule, check: None, begins: None })
            .collect();
        Self::of_shapes(&shapes, window)
    }

    /// The first shape that matches at a place is preferred.
    pub(super) fn of_shapes(shapes: &[Shape<'_>], window: u64) -> Result<Self, PatternError> {
        for (index, shape) in shapes.iter().enumerate() {
            let parsed = regex_syntax::parse(shape.pattern)
                .map_err(|error| PatternError::Syntax { index, message: reason(&error) })?;
            if parsed.properties().minimum_len().is_none_or(|len| len == 0) {
                return Err(PatternError::Empty { index });
            }
            compile(&[shape.pattern], index)?;
        }
        let all: Vec<&str> = shapes.iter().map(|shape| shape.pattern).collect();
        let nfa = compile(&all, shapes.len().saturating_sub(1))?;
        let entries = entries(&nfa);
        let looks = entries.iter().flatten().fold(LookSet::empty(), |all, entry| all.union(entry.looks));
        Ok(Self {
            nfa,
            entries,
            entry_looks: looks,
            checks: shapes.iter().map(|shape| shape.check).collect(),
            begins: shapes.iter().map(|shape| shape.begins).collect(),
            needs_left: shapes.iter().any(|shape| shape.check.is_some() || shape.begins.is_some()),
            rules: shapes.iter().map(|shape| shape.rule).collect(),
            window: window.max(1),
        })
    }
}

fn compile(patterns: &[&str], index: usize) -> Result<NFA, PatternError> {
    let config =
        Config::new().which_captures(WhichCaptures::None).nfa_size_limit(Some(NFA_LIMIT_BYTES)).utf8(true);
    Compiler::new()
        .configure(config)
        .syntax(syntax::Config::new().utf8(true))
        .build_many(patterns)
        .map_err(|_| PatternError::TooLarge { index })
}

/// The message of a syntax error, without its drawing.
fn reason(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    }
}

/// Follows each pattern from its start up to the states that read a byte, with the assertions on the way.
fn entries(nfa: &NFA) -> Vec<Vec<Entry>> {
    let mut entries = vec![Vec::new(); 256];
    for pattern in nfa.patterns() {
        let Some(start) = nfa.start_pattern(pattern) else { continue };
        let mut seen = HashSet::new();
        let mut stack = vec![(start, LookSet::empty())];
        while let Some((id, looks)) = stack.pop() {
            if !seen.insert((id, looks.bits)) {
                continue;
            }
            let mut add = |byte: u8, next: StateID| {
                entries[usize::from(byte)].push(Entry { looks, pattern: pattern.as_usize(), next });
            };
            match nfa.state(id) {
                State::ByteRange { trans } => {
                    (trans.start..=trans.end).for_each(|byte| add(byte, trans.next))
                }
                State::Sparse(sparse) => sparse
                    .transitions
                    .iter()
                    .for_each(|trans| (trans.start..=trans.end).for_each(|byte| add(byte, trans.next))),
                State::Dense(dense) => {
                    (0..=255)
                        .filter_map(|b| Some((b, dense.matches_byte(b)?)))
                        .for_each(|(b, id)| add(b, id));
                }
                State::Look { look, next } => stack.push((*next, looks.insert(*look))),
                State::Capture { next, .. } => stack.push((*next, looks)),
                State::Union { alternates } => stack.extend(alternates.iter().rev().map(|id| (*id, looks))),
                State::BinaryUnion { alt1, alt2 } => stack.extend([(*alt2, looks), (*alt1, looks)]),
                State::Fail | State::Match { .. } => {}
            }
        }
    }
    entries
}
