//! The hold-back automaton: which end of the text may still become one of many strings.
//!
//! It reads one byte at a time and always knows which strings end here, and how long the suffix is that could still
//! grow into one. Everything else may be sent. `StopStrings` reads the text itself; the block-list of `guard` reads its
//! normal form and records where each piece came from.

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
