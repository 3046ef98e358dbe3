//! The state machines of `torvyn-text` as Python classes.

pub mod guard;
pub mod json_field;
pub mod splitter;
pub mod stop_strings;
pub mod streamer;
pub mod token_table;
