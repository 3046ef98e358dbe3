//! Text as it streams: token ids to bytes, bytes to characters, characters to sentences, tokens against a list of words.
//!
//! Every part is a state machine that is fed pieces of any size and gives the same answer however its input was cut.
//! Nothing here knows of queues or Python; `stages` makes parts of a flow of them.
#![forbid(unsafe_code)]

pub mod blocklist;
pub mod graphemes;
pub mod guard;
pub mod holdback;
pub mod sentence;
pub mod stages;
pub mod streamer;
pub mod utf8;
pub mod vocabulary;

pub use blocklist::Blocklist;
pub use guard::GuardStage;
pub use holdback::StopStrings;
pub use sentence::{Language, Mode, Options, Splitter};
pub use stages::{BlocklistStage, SentenceStage};
pub use streamer::{Bad, Policies, StreamError, Streamer, Unknown};
pub use utf8::Utf8Decoder;
pub use vocabulary::{Start, Table, Vocabulary};
