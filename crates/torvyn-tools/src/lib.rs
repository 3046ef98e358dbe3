//! Tools that run once per project, never per element: TOML with positions, WIT, component files.
//!
//! Knows neither Python nor the meaning of the manifest's keys.

#![forbid(unsafe_code)]

#[cfg(feature = "wasm")]
pub mod describe;
pub mod toml;
#[cfg(feature = "wasm")]
pub mod wasm;
#[cfg(feature = "wasm")]
pub mod wit;
#[cfg(feature = "wasm")]
pub mod wit_folder;
