//! Guards: rules over streaming text, and what is done where they match.
//!
//! `Guard` keeps the text that could still become a match, lets the rest go, and takes out, replaces or stops at what
//! matched. Its answer does not depend on how the text was cut. It never keeps or tells the text of a match.

mod candidate;
mod look_around;
mod machine;
mod order;
mod pattern;
mod pending_element;
mod pike;
mod pike_window;
mod redact;
mod rules;
mod span;
mod stage;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod word_tests;

pub use machine::Guard;
pub use order::{Address, GuardedTexts, Passage, WAITING_LIMIT};
pub use pattern::{PatternError, Patterns};
pub use pending_element::Divisible;
pub use pike::PatternSearch;
pub use redact::{KINDS, UnknownKind, redact_patterns};
pub use rules::{Action, Finding, Made, Policy, Rules, Search, Settings};
pub use stage::{Audit, GuardStage};

/// The text that a search may look at: what is not released, or may still be part of a match.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub text: &'a str,
    /// The character before `text`; none at the beginning of the stream.
    pub before: Option<char>,
}

/// A match, in bytes of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub start: usize,
    pub end: usize,
    pub rule: u32,
    /// More of the same match will be found right after it.
    pub goes_on: bool,
}
