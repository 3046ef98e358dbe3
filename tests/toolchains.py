"""Whether the compiler of guests in Rust is installed; without it, its tests are skipped."""

from __future__ import annotations

import missing

import rust_toolchain

RUST = "a Rust compiler with wasm32-wasip1"
needs_rust = missing.needs(RUST, is_there=rust_toolchain.variables() is not None)
