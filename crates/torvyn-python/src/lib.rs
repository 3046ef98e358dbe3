//! The border between Python and the native core: the only crate that names pyo3.
//!
//! A linked plan comes in as tuples, a `NativeFlow` goes out. Elements cross under one attachment a turn, and no
//! Python code runs while a native lock is held.

mod blueprint;
mod clock;
mod convert;
mod details;
mod element;
mod events;
mod feeding;
mod flow;
mod frame_stage;
mod frames;
mod guard;
mod interpret;
mod iterator;
mod native;
mod partial;
mod pool;
mod port;
mod report;
#[cfg(feature = "sandbox")]
mod sandbox;
mod stage;
mod stops;
mod streamer;
mod symbols;
mod text;
mod toml;
mod tools;
mod vocabulary;
mod waker;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::clock::ManualClock;
    #[pymodule_export]
    use super::element::PyElement;
    #[pymodule_export]
    use super::events::{ChunkParser, EventParser, ServerEvent};
    #[pymodule_export]
    use super::flow::NativeFlow;
    #[pymodule_export]
    use super::frames::FrameEncoder;
    #[pymodule_export]
    use super::guard::GuardedTexts;
    #[pymodule_export]
    use super::guard::TextGuard;
    #[pymodule_export]
    use super::iterator::{FlowIterator, NodeHandle};
    #[pymodule_export]
    use super::native::NativeStage;
    #[pymodule_export]
    use super::partial::PartialJson;
    #[pymodule_export]
    use super::pool::Workers;
    #[pymodule_export]
    use super::port::Port;
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use super::sandbox::{CompiledComponent, SandboxError, SandboxGuest, capability_covers};
    #[pymodule_export]
    use super::stops::StopStrings;
    #[pymodule_export]
    use super::streamer::TextStreamer;
    #[pymodule_export]
    use super::text::{SentenceSplitter, Utf8Decoder};
    #[pymodule_export]
    use super::toml::{TomlError, parse_toml};
    #[pymodule_export]
    use super::tools::{
        WasmError, annotate_component, component_notes, describe_component, encode_component, wit_files,
        wit_worlds,
    };
    #[pymodule_export]
    use super::vocabulary::{TokenTable, VocabularyFault, read_gguf, read_sentencepiece};
    #[pymodule_export]
    use super::waker::PyWaker;
}
