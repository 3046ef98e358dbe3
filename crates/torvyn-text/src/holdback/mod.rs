//! The hold-back automaton: which end of the text may still become one of many strings.
//!
//! Bytes go in one at a time; at any moment the automaton knows the strings that end here and how long the suffix is
//! that could still grow into one. All else may leave. `StopStrings` reads the text as it is; the block-list of `guard`
//! reads its normal form and keeps a record of where each piece of it came from.

mod alphabets;
mod automaton;
mod normal;
mod origin;
mod stop_strings;
#[cfg(test)]
mod tests;
mod word_rules;
mod words;

pub use automaton::{Automaton, TooLarge};
pub use normal::{borders, is_invisible, normalize};
pub use stop_strings::{MOST_STOPS, StopStrings, StopsError};
pub use word_rules::{WordOptions, WordRules, WordsError};
pub use words::{GAP_LIMIT, WordSearch};
