"""Reads the fields of an OpenAI chunk, in all the variants that providers send.

Raises `FieldTypeError` with the path of a field that has an unexpected type. Unknown fields are
ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from torvyn.protocol.frames import (
    FILTER_SIDES,
    ErrorFrame,
    FilterSide,
    FinishReason,
    Kind,
    ToolCall,
    Usage,
)
from torvyn.protocol.openai.finish_reasons import MOST_LETTERS, translate
from torvyn.protocol.openai.surrogate_pairs import encodable

Json = Mapping[str, Any]

RETRIED: Final = frozenset({408, 409, 429, 500, 502, 503, 504, *range(520, 525), 529})
"""Statuses after which the same request may succeed; some of them only proxies send."""
_STATUSES: Final = {
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    # OpenAI says 429, but waiting does not help: somebody has to pay.
    "insufficient_quota": 402,
    "permission_error": 403,
    "model_not_found": 404,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "internal_server_error": 500,
    "server_error": 500,
    "service_unavailable": 503,
    "unavailable_error": 503,
    "timeout": 504,
    "timeout_error": 504,
    "overloaded": 529,
    "overloaded_error": 529,
}
"""What providers call a status, as the code or the type of an error."""
_NAMES_OF_STATUS: Final = ("code", "type", "status", "status_code")
"""Members of an error that may name a status. The code counts most: it is the most exact."""


class FieldTypeError(Exception):
    """A field has an unexpected type."""


def member(record: Json, name: str, kind: type | tuple[type, ...], path: str) -> Any:
    """The field, or None when it is missing or null."""
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise FieldTypeError(f"`{path}{name}` is {type(value).__name__}")
    return value


def finish_reason(choice: Json, path: str) -> tuple[FinishReason, str | None] | None:
    """Our finish reason, and the upstream's own name if it differs."""
    name = member(choice, "finish_reason", str, path)
    if not name:
        return None
    reason, _ = translate(name)
    native = choice.get("native_finish_reason")
    if name == reason and isinstance(native, str) and native != reason:
        return reason, encodable(native[:MOST_LETTERS])
    return reason, None if name == reason else encodable(name[:MOST_LETTERS])


def stop_details(choice: Json) -> tuple[str | None, str | None, FilterSide | None]:
    """The stop string, `stopped_by`, and what a guard filtered. vLLM uses `stop_reason`, SGLang
    `matched_stop`; both may be token ids, which are not stop strings."""
    stops = (choice.get(name) for name in ("stop_reason", "matched_stop"))
    matched = next((stop for stop in stops if isinstance(stop, str)), None)
    by = choice.get("stopped_by")
    filtered = choice.get("content_filter")
    side = filtered.get("side") if isinstance(filtered, dict) else None
    return matched, by if isinstance(by, str) else None, side if side in FILTER_SIDES else None


def texts(delta: Json, path: str) -> Iterator[tuple[Kind, str]]:
    """`(kind, text)` of a chat delta or of a choice of completions: reasoning before text."""
    for name in ("reasoning_content", "reasoning"):
        if reasoning := member(delta, name, str, path):
            yield "reasoning", reasoning
            break
    content = member(delta, "content", (str, list), path)
    if isinstance(content, list):
        yield from _parts(content, path)
    elif content:
        yield "text", content
    for name in ("text", "refusal"):
        if text := member(delta, name, str, path):
            yield "text", text


def _parts(parts: list[Any], path: str) -> Iterator[tuple[Kind, str]]:
    """Content in typed parts, as Mistral sends it."""
    for place, part in enumerate(parts):
        where = f"{path}content[{place}]."
        if not isinstance(part, Mapping):
            raise FieldTypeError(f"`{where[:-1]}` is {type(part).__name__}")
        if text := member(part, "text", str, where):
            yield "text", text
        thinking = member(part, "thinking", (str, list), where)
        if isinstance(thinking, str):
            yield "reasoning", thinking
        for _, text in _parts(thinking, where) if isinstance(thinking, list) else ():
            yield "reasoning", text


def tool_calls(delta: Json, path: str) -> Iterator[ToolCall]:
    """The pieces of tool calls. A piece without an index gets -1."""
    if (old := member(delta, "function_call", Mapping, path)) is not None:
        yield _call(old, 0, None, f"{path}function_call.")
    for place, call in enumerate(member(delta, "tool_calls", list, path) or ()):
        where = f"{path}tool_calls[{place}]."
        if not isinstance(call, Mapping):
            raise FieldTypeError(f"`{where[:-1]}` is {type(call).__name__}")
        index = member(call, "index", int, where)
        function = member(call, "function", Mapping, where) or {}
        name = member(call, "id", str, where)
        yield _call(function, -1 if index is None else index, name, f"{where}function.")


def _call(function: Json, index: int, id: str | None, path: str) -> ToolCall:
    arguments = member(function, "arguments", (str, Mapping), path) or ""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    name = member(function, "name", str, path)
    return ToolCall(index=index, id=id or None, name=name or None, arguments=arguments)


def logprobs(choice: Json, path: str) -> tuple[Json, ...] | None:
    """The log probabilities as entries of the chat API; those of completions are converted."""
    record = member(choice, "logprobs", Mapping, path)
    if record is None:
        return None
    path += "logprobs."
    if "tokens" in record:
        return tuple(_rows(record, path))
    entries = [*(member(record, "content", list, path) or ())]
    entries += member(record, "refusal", list, path) or ()
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise FieldTypeError(f"`{path}content` has an entry that is not an object")
    return tuple(entries) or None


def _rows(columns: Json, path: str) -> Iterator[Json]:
    tokens = member(columns, "tokens", list, path) or []
    logs = member(columns, "token_logprobs", list, path) or []
    tops = member(columns, "top_logprobs", list, path) or []
    for place, token in enumerate(tokens):
        row: dict[str, Any] = {
            "token": token,
            "logprob": logs[place] if place < len(logs) else None,
        }
        if place < len(tops) and isinstance(tops[place], Mapping):
            pairs = tops[place].items()
            row["top_logprobs"] = [{"token": key, "logprob": value} for key, value in pairs]
        yield row


def usage(chunk: Json) -> Usage | None:
    """The usage, wherever the provider puts it."""
    counts = member(chunk, "usage", Mapping, "")
    if counts is None and (groq := member(chunk, "x_groq", Mapping, "")) is not None:
        counts = member(groq, "usage", Mapping, "x_groq.")
    if counts is None:
        return None
    prompt = member(counts, "prompt_tokens_details", Mapping, "usage.") or {}
    completion = member(counts, "completion_tokens_details", Mapping, "usage.") or {}
    hit = member(counts, "prompt_cache_hit_tokens", int, "usage.")
    return Usage(
        prompt_tokens=member(counts, "prompt_tokens", int, "usage.") or 0,
        completion_tokens=member(counts, "completion_tokens", int, "usage.") or 0,
        cached_tokens=member(prompt, "cached_tokens", int, "usage.") or hit or 0,
        reasoning_tokens=member(completion, "reasoning_tokens", int, "usage.") or 0,
    )


def error(chunk: Json, seq: int, *, is_error_event: bool) -> ErrorFrame | None:
    """An error, in any of the forms that providers send."""
    details = chunk.get("error")
    if details is None and (is_error_event or chunk.get("object") == "error"):
        details = chunk
    if not details:
        return None
    if not isinstance(details, Mapping):
        return ErrorFrame(seq, code="error", message=str(details))
    kind, code = details.get("type"), details.get("code")
    named = code if code not in (None, "") else kind
    message, status = details.get("message"), _status(details)
    return ErrorFrame(
        seq,
        code=str(named) if named not in (None, "") else "error",
        message=message if isinstance(message, str) else json.dumps(dict(details)),
        retryable=status in RETRIED,
        status=status,
    )


def _status(error: Json) -> int | None:
    """The HTTP status that an error names, by its number or as providers call it."""
    statuses = (_status_of(error.get(name)) for name in _NAMES_OF_STATUS)
    return next((status for status in statuses if status is not None), None)


def _status_of(value: Any) -> int | None:
    if isinstance(value, str):
        is_number = len(value) == 3 and value.isdecimal()
        value = int(value) if is_number else _STATUSES.get(value.lower())
    return value if isinstance(value, int) and 400 <= value < 600 else None


def delta_of(choice: Json, path: str) -> Json:
    """The new content of a choice: `delta`, `message` if it is whole, or the choice itself."""
    for name in ("delta", "message"):
        content: Json | None = member(choice, name, Mapping, path)
        if content is not None:
            return content
    return choice


def choices(chunk: Json) -> Iterator[tuple[int, Json, str]]:
    """`(index, choice, path)` of each choice."""
    for place, choice in enumerate(member(chunk, "choices", list, "") or ()):
        path = f"choices[{place}]."
        if not isinstance(choice, Mapping):
            raise FieldTypeError(f"`{path[:-1]}` is {type(choice).__name__}")
        index = member(choice, "index", int, path)
        yield cast(int, place if index is None else index), choice, path
