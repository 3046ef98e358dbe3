"""JSON that is nested too deeply is a `RecursionError`, as it is outside of a sandbox.

The interpreter of a guest counts calls of Python, and believes that those of its own C code have
megabytes of stack. The sandbox has less: the guest would trap, and lose what the component holds.
"""

from __future__ import annotations

import json.decoder
import re
from itertools import accumulate
from typing import Any, Final

DEEPEST: Final = 900
"""Levels that fit into a guest's stack, whatever they are made of."""

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_STEP: Final = {"[": 1, "{": 1, "]": -1, "}": -1}

_raw_decode: Final = json.decoder.JSONDecoder.raw_decode


def depth(text: str) -> int:
    """How deeply the text is nested; texts with few brackets are not looked at any closer."""
    opened = text.count("[") + text.count("{")
    if opened <= DEEPEST:
        return opened
    brackets = _BRACKET.findall(_STRING.sub("", text))
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def raw_decode(decoder: json.decoder.JSONDecoder, text: str, idx: int = 0) -> tuple[Any, int]:
    if isinstance(text, str) and depth(text) > DEEPEST:
        raise RecursionError(f"the JSON text is nested more than {DEEPEST} levels deep")
    return _raw_decode(decoder, text, idx)


def install() -> None:
    json.decoder.JSONDecoder.raw_decode = raw_decode  # type: ignore[method-assign, assignment]
