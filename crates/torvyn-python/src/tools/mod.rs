//! `torvyn-tools` for Python: TOML with positions, WebAssembly component files, WIT.

pub mod toml;
pub mod wasm;
