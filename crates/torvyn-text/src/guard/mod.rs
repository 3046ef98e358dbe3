//! Guards: rules over streaming text, and what happens where they match.
//!
//! A `Guard` buffers the text that could still become a match, sends the rest, and removes, replaces or blocks at a
//! match. Its result does not depend on how the text is split. It never stores or reports the text of a match.

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

/// The text that a search may read: what was not sent, or may still be part of a match.
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
    /// The match continues right after it.
    pub goes_on: bool,
}
