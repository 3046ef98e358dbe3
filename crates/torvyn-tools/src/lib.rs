//! Tools that run once per project, never per element: reading TOML with the place of everything in it.
//!
//! Knows nothing of Python or of what the keys mean.

#![forbid(unsafe_code)]

pub mod toml;
