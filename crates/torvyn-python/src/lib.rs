//! The border between Python and the native core: the only crate that uses pyo3.
//!
//! A linked plan comes in, a `NativeFlow` goes out. Elements cross under one attachment per turn, and no Python code
//! runs while a native lock is held.

#[cfg(feature = "nats")]
mod broker;
#[cfg(feature = "network")]
mod client;
mod component;
#[cfg(feature = "disk")]
mod database;
mod element;
mod enums;
mod error;
mod flow;
mod interpreter;
mod lock;
mod parts;
#[cfg(feature = "sandbox")]
mod sandbox;
#[cfg(feature = "network")]
mod server;
mod symbols;
mod text;
mod tools;
mod wire;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[cfg(feature = "nats")]
    #[pymodule_export]
    use super::broker::NatsClient;
    #[cfg(feature = "nats")]
    #[pymodule_export]
    use super::broker::input::NatsInput;
    #[cfg(feature = "nats")]
    #[pymodule_export]
    use super::broker::nkey_sign;
    #[cfg(feature = "nats")]
    #[pymodule_export]
    use super::broker::output::NatsOutput;
    #[cfg(feature = "network")]
    #[pymodule_export]
    use super::client::WireClient;
    #[cfg(feature = "network")]
    #[pymodule_export]
    use super::client::direct::DirectText;
    #[pymodule_export]
    use super::component::native_stage::NativeStage;
    #[cfg(feature = "disk")]
    #[pymodule_export]
    use super::database::Database;
    #[pymodule_export]
    use super::element::PyElement;
    #[pymodule_export]
    use super::element::batch::PyBatch;
    #[pymodule_export]
    use super::error::NativeError;
    #[pymodule_export]
    use super::flow::NativeFlow;
    #[pymodule_export]
    use super::flow::clock::ManualClock;
    #[pymodule_export]
    use super::flow::edge_log::{PyBell, PyEdgeLog, PyReceipts};
    #[pymodule_export]
    use super::flow::pool::Workers;
    #[pymodule_export]
    use super::flow::port::Port;
    #[pymodule_export]
    use super::flow::waker::PyWaker;
    #[pymodule_export]
    use super::parts::absent_class;
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use super::sandbox::CompiledComponent;
    #[cfg(feature = "network")]
    #[pymodule_export]
    use super::server::WireServer;
    #[cfg(feature = "network")]
    #[pymodule_export]
    use super::server::direct_steps::DirectSteps;
    #[cfg(feature = "network")]
    #[pymodule_export]
    use super::server::exchange::WireExchange;
    #[pymodule_export]
    use super::text::guard::TextGuard;
    #[pymodule_export]
    use super::text::json_field::text_field;
    #[pymodule_export]
    use super::text::splitter::{SentenceSplitter, Utf8Decoder};
    #[pymodule_export]
    use super::text::stop_strings::StopStrings;
    #[pymodule_export]
    use super::text::streamer::TextStreamer;
    #[pymodule_export]
    use super::text::token_table::TokenTable;
    #[pymodule_export]
    use super::tools::file_parser::FileParser;
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use super::tools::wasm::WasmTools;
    #[pymodule_export]
    use super::wire::events::{ChunkParser, EventParser, ServerEvent};
    #[pymodule_export]
    use super::wire::frames::FrameEncoder;
    #[pymodule_export]
    use super::wire::messages::MessageEncoder;
    #[pymodule_export]
    use super::wire::partial_json::PartialJson;

    #[pymodule_export]
    const PARTS: &[&str] = super::parts::BUILT_IN;
}
