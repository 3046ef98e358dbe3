"""Whether the toolchains of guests are installed; without one, its tests are skipped and say so."""

from __future__ import annotations

import importlib.util

import pytest

import rust_toolchain

needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None,
    reason="NOT TESTED: guests in C, for want of ziglang: pip install 'torvyn[c]'",
)
needs_componentize_py = pytest.mark.skipif(
    importlib.util.find_spec("componentize_py") is None,
    reason="NOT TESTED: guests in Python, for want of componentize-py: "
    "pip install 'torvyn[python-guest]'",
)
needs_rust = pytest.mark.skipif(rust_toolchain.variables() is None, reason=rust_toolchain.WHY)
