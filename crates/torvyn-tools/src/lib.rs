//! Tools that run once per project, never per element: TOML with the place of everything in it, WIT, components.
//!
//! Knows nothing of Python or of what the manifest's keys mean.

#![forbid(unsafe_code)]

pub mod describe;
pub mod toml;
pub mod wasm;
pub mod wit;
pub mod wit_folder;
