//! `torvyn-tools` for Python: TOML with positions, WebAssembly component files, WIT.

pub mod file_parser;
#[cfg(feature = "sandbox")]
pub mod wasm;
