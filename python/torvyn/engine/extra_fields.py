"""Fields of a request that are not ours, such as `top_k`, and which may be forwarded. Pure.

A client chooses them, so they are few, small and flat enough for any parser, and none of them can
take the place of a field that decides what is asked, of which model, and how its answer is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MOST_FIELDS: Final = 32
MOST_BYTES: Final = 16 * 1024
_MOST_DEPTH: Final = 16
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

RESERVED: Final = frozenset(
    {
        # what is asked
        "model", "models", "messages", "prompt", "input", "chat_template", "user", "priority",
        # how many answers there are, and where they end
        "n", "best_of", "max_tokens", "max_completion_tokens", "stop", "include_stop",
        "include_stop_str_in_output", "echo",
        # how they are read
        "stream", "stream_options", "logprobs", "top_logprobs", "tools", "tool_choice",
        "response_format",
        # ours, and known by other means
        "temperature", "top_p", "seed", "flow", "stateful", "request_id",
        # what clients' libraries take for themselves
        "api_key", "api_base", "base_url", "extra", "extra_body", "extra_headers", "extra_query",
    }
)  # fmt: skip
"""What is never forwarded: a field of ours in another dialect, one that changes how many answers
there are or how they are read, and one that is code or an address for the upstream."""


def forwardable(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a client's unknown fields that an upstream may be sent."""
    return {name: value for name, value in given.items() if _may_pass(name)}


def extra_problems(extra: object) -> Iterator[str]:
    """What is wrong with them, as sentences."""
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
        yield "`extra` is a table of fields"
        return
    if not extra:
        return
    for name in sorted(name for name in extra if not _may_pass(name))[:8]:
        yield f"`{name[:64]}` is no field that can be forwarded"
    if len(extra) > MOST_FIELDS:
        yield f"{len(extra)} fields that are not ours; at most {MOST_FIELDS} are forwarded"
    if _depth_passes(extra):
        yield f"the fields to forward have more than {_MOST_DEPTH} levels"
        return
    try:
        size = len(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError):
        yield "the fields to forward are no JSON"
        return
    if size > MOST_BYTES:
        yield f"the fields to forward have {size} bytes; at most {MOST_BYTES} are forwarded"


def _may_pass(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in RESERVED


def _depth_passes(value: object) -> bool:
    level = [value]
    for _ in range(_MOST_DEPTH):
        inner: list[object] = []
        for held in level:
            if isinstance(held, Mapping):
                inner += held.values()
            elif isinstance(held, (list, tuple)):
                inner += held
        if not inner:
            return False
        level = inner
    return True
