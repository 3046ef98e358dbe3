//! The hold-back automaton: which end of the text may still become one of many strings.
//!
//! Bytes go in one at a time; at any moment the automaton knows the strings that end here and how long the suffix is
//! that could still grow into one. All else may leave. `StopStrings` and the block-list of `guard` are built on it.

mod automaton;
mod fold;
mod stops;
#[cfg(test)]
mod tests;
mod words;

pub use automaton::{Automaton, TooLarge};
pub use fold::{borders, fold};
pub use stops::{MOST_STOPS, StopStrings, StopsError};
pub use words::{WordRules, WordSearch};
