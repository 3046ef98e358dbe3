"""Translates the finish reasons of upstreams to our six.

Most providers have names that OpenAI does not. A name that is in no table is classified by its
parts; the last resort is `stop`, because the upstream did end the choice. Callers keep the original
name next to the translation.
"""

from __future__ import annotations

import re
from typing import Final

from torvyn.protocol.frames import FINISH_REASONS, FinishReason

_NAMES: Final[dict[FinishReason, str]] = {
    "stop": """eos eos_token eos_found end end_turn end_of_turn end_of_text stop_sequence
        stop_sequence_reached stop_string stop_str stop_token complete completed done finished
        natural normal success""",
    "length": """max_tokens max_token max_output_tokens max_completion_tokens max_new_tokens
        max_length model_length token_limit length_limit_reached context_length_exceeded
        context_window_exceeded model_context_window_exceeded error_limit incomplete""",
    "tool_calls": "tool_call tool_use tool_used function_call function_calls call_tool",
    "content_filter": """safety image_safety recitation blocklist block_list blocked spii
        prohibited_content content_filtered content_policy_violation guardrail_intervened
        moderation sensitive refusal error_toxic""",
    "cancelled": "abort aborted cancel canceled interrupt interrupted user_cancel",
    "error": """errored fail failed failure insufficient_system_resource network_error timeout
        time_limit malformed_function_call malformed_tool_call unexpected_tool_call overloaded""",
}
_KNOWN: Final[dict[str, FinishReason]] = {
    **{name: reason for reason, names in _NAMES.items() for name in names.split()},
    **{reason: reason for reason in FINISH_REASONS},
}
_PARTS: Final[tuple[tuple[str, FinishReason], ...]] = (
    ("filter", "content_filter"),
    ("safety", "content_filter"),
    ("policy", "content_filter"),
    ("block", "content_filter"),
    ("moderat", "content_filter"),
    ("refus", "content_filter"),
    ("cancel", "cancelled"),
    ("abort", "cancelled"),
    ("error", "error"),
    ("fail", "error"),
    ("timeout", "error"),
    ("time_limit", "error"),
    ("rate_limit", "error"),
    ("quota", "error"),
    ("overload", "error"),
    ("unavailable", "error"),
    ("resource", "error"),
    ("tool", "tool_calls"),
    ("function", "tool_calls"),
    ("length", "length"),
    ("limit", "length"),
    ("exceed", "length"),
    ("max", "length"),
    ("stop", "stop"),
    ("eos", "stop"),
)
"""Ordered by the cost of a mistake: a broken answer must not look complete."""
_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
MOST_LETTERS: Final = 64


def translate(name: str) -> tuple[FinishReason, bool]:
    """Our reason, and whether the name is in a table; if not, the reason is a guess."""
    key = _SEPARATORS.sub("_", name[:MOST_LETTERS].lower()).strip("_")
    key = key.removeprefix("finish_reason_")
    if (known := _KNOWN.get(key)) is not None:
        return known, True
    return next((reason for part, reason in _PARTS if part in key), "stop"), False
