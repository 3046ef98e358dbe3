"""Unknown fields of a request, such as `top_k`, that may be forwarded to an upstream. Pure.

A client chooses them, so their number, size and depth are limited, and none of them can replace a
field that decides the prompt, the model or the form of the answer.
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
        # the prompt and the model
        "model", "models", "messages", "prompt", "input", "chat_template", "user", "priority",
        # the number of answers and their length
        "n", "best_of", "max_tokens", "max_completion_tokens", "stop", "include_stop",
        "cut_character",
        "include_stop_str_in_output", "echo",
        # the form of the answer
        "stream", "stream_options", "logprobs", "top_logprobs", "tools", "tool_choice",
        "response_format",
        # fields with their own options
        "temperature", "top_p", "seed", "flow", "stateful", "request_id",
        # fields of client libraries
        "api_key", "api_base", "base_url", "extra", "extra_body", "extra_headers", "extra_query",
    }
)  # fmt: skip
"""Never forwarded: our own fields in other dialects, fields that change the number or the form of
answers, and fields that are code or addresses for the upstream."""


def forwardable(unknown: Mapping[str, Any]) -> dict[str, Any]:
    """The unknown fields of a client that may be sent to an upstream."""
    return {name: value for name, value in unknown.items() if _may_pass(name)}


def extra_problems(extra: object) -> Iterator[str]:
    """All problems of the fields, as sentences."""
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
        yield "`extra` is a table of fields"
        return
    if not extra:
        return
    for name in sorted(name for name in extra if not _may_pass(name))[:8]:
        yield f"`{name[:64]}` cannot be forwarded"
    if len(extra) > MOST_FIELDS:
        yield f"{len(extra)} unknown fields; at most {MOST_FIELDS} are forwarded"
    if _is_too_deep(extra):
        yield f"the fields to forward are nested more than {_MOST_DEPTH} levels deep"
        return
    try:
        size = len(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError):
        yield "the fields to forward are not valid JSON"
        return
    if size > MOST_BYTES:
        yield f"the fields to forward have {size} bytes; at most {MOST_BYTES} are forwarded"


def _may_pass(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in RESERVED


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(_MOST_DEPTH):
        inner: list[object] = []
        for item in level:
            if isinstance(item, Mapping):
                inner += item.values()
            elif isinstance(item, (list, tuple)):
                inner += item
        if not inner:
            return False
        level = inner
    return True
