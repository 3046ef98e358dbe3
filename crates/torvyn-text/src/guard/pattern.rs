//! Regular expressions for a guard: parsed, checked and made into one automaton. Matching takes linear time.

use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;

/// What an automaton may take. Counted repetitions of large classes are what makes one large.
const NFA_LIMIT_BYTES: usize = 4 << 20;

/// Whether the text of a match is one after all: check digits and the like.
pub type Check = fn(&str) -> bool;

#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("{message}")]
    Syntax { index: usize, message: String },
    #[error("it matches the empty text")]
    Empty { index: usize },
    #[error("it needs more than {NFA_LIMIT_BYTES} bytes")]
    TooLarge { index: usize },
}

impl PatternError {
    /// Which of the patterns is wrong.
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
    /// The bytes with which a match can begin.
    pub(super) first: Box<[bool; 256]>,
    pub(super) checks: Vec<Option<Check>>,
    /// The rule that each pattern belongs to.
    pub(super) rules: Vec<u32>,
    /// The characters within which a match is surely found.
    pub(super) window: u64,
}

impl Patterns {
    /// Each pattern is its own rule.
    pub fn new<P: AsRef<str>>(patterns: &[P], window: u64) -> Result<Self, PatternError> {
        let rules = (0..patterns.len() as u32).collect();
        Self::checked(patterns, rules, vec![None; patterns.len()], window)
    }

    pub(super) fn checked<P: AsRef<str>>(
        patterns: &[P],
        rules: Vec<u32>,
        checks: Vec<Option<Check>>,
        window: u64,
    ) -> Result<Self, PatternError> {
        for (index, pattern) in patterns.iter().enumerate() {
            let parsed = regex_syntax::parse(pattern.as_ref())
                .map_err(|error| PatternError::Syntax { index, message: reason(&error) })?;
            if parsed.properties().minimum_len().is_none_or(|len| len == 0) {
                return Err(PatternError::Empty { index });
            }
            compile(&[pattern.as_ref()], index)?;
        }
        let all: Vec<&str> = patterns.iter().map(AsRef::as_ref).collect();
        let nfa = compile(&all, patterns.len().saturating_sub(1))?;
        let first = first_bytes(&nfa);
        Ok(Self { nfa, first, checks, rules, window: window.max(1) })
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

/// The sentence of a syntax error, without the drawing around it.
fn reason(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    }
}

fn first_bytes(nfa: &NFA) -> Box<[bool; 256]> {
    let mut first = Box::new([false; 256]);
    let mut seen = vec![false; nfa.states().len()];
    let mut stack: Vec<StateID> = vec![nfa.start_anchored()];
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut seen[id.as_usize()], true) {
            continue;
        }
        let mut mark = |start: u8, end: u8| first[usize::from(start)..=usize::from(end)].fill(true);
        match nfa.state(id) {
            State::ByteRange { trans } => mark(trans.start, trans.end),
            State::Sparse(sparse) => sparse.transitions.iter().for_each(|trans| mark(trans.start, trans.end)),
            State::Dense(dense) => {
                (0..=255)
                    .filter(|&byte| dense.matches_byte(byte).is_some())
                    .for_each(|byte| mark(byte, byte));
            }
            State::Look { next, .. } | State::Capture { next, .. } => stack.push(*next),
            State::Union { alternates } => stack.extend(alternates.iter()),
            State::BinaryUnion { alt1, alt2 } => stack.extend([alt1, alt2]),
            State::Fail | State::Match { .. } => {}
        }
    }
    first
}
