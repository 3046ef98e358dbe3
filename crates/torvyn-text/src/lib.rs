//! Streaming text: token ids to bytes, bytes to characters, characters to sentences, stop strings, guards and
//! block-lists.
//!
//! Everything is a state machine that takes pieces of any size and gives the same result however its input is split.
//! Nothing here knows queues or Python; `stages` wraps the machines for flows.
#![forbid(unsafe_code)]

pub mod blocklist;
pub mod graphemes;
pub mod guard;
pub mod holdback;
pub mod json_field;
pub mod sentence;
pub mod stages;
pub mod streamer;
pub mod utf8;
pub mod vocabulary;

pub use blocklist::Blocklist;
pub use guard::GuardStage;
pub use holdback::StopStrings;
pub use json_field::text_field;
pub use sentence::{Language, Mode, Options, Splitter};
pub use stages::{BlocklistStage, SentenceStage};
pub use streamer::{Bad, Policies, StreamError, Streamer, Unknown};
pub use utf8::Utf8Decoder;
pub use vocabulary::{Start, Table, Vocabulary};
