//! Tools that run once per project, never per element: TOML with positions, WIT, component files.
//!
//! Knows neither Python nor the meaning of the manifest's keys.

#![forbid(unsafe_code)]

pub mod describe;
pub mod toml;
pub mod wasm;
pub mod wit;
pub mod wit_folder;
