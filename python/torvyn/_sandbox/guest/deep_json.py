"""Raises `RecursionError` for deeply nested JSON, as Python does outside of the sandbox.

The interpreter assumes megabytes of stack for its C code. The sandbox has less, so the guest would
trap and lose the component's state.
"""

from __future__ import annotations

import json.decoder
import re
from itertools import accumulate
from typing import Any, Final

MAX_DEPTH: Final = 900
"""The levels that fit into a guest's stack."""

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_STEP: Final = {"[": 1, "{": 1, "]": -1, "}": -1}

_raw_decode: Final = json.decoder.JSONDecoder.raw_decode


def depth(text: str) -> int:
    """The nesting depth; for texts with few brackets, an upper bound."""
    opened = text.count("[") + text.count("{")
    if opened <= MAX_DEPTH:
        return opened
    brackets = _BRACKET.findall(_STRING.sub("", text))
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def raw_decode(decoder: json.decoder.JSONDecoder, text: str, idx: int = 0) -> tuple[Any, int]:
    if isinstance(text, str) and depth(text) > MAX_DEPTH:
        raise RecursionError(f"the JSON text has more than {MAX_DEPTH} nested levels")
    return _raw_decode(decoder, text, idx)


def install() -> None:
    json.decoder.JSONDecoder.raw_decode = raw_decode  # type: ignore[method-assign, assignment]
