"""A client's message on a channel, as a record -> its parts, checked. No I/O.

Transports decode messages to records first. An unknown type or field is an error, as it is in a
body of `/v1/streams`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from torvyn.transport.rejection import Rejection
from torvyn.transport.request_body import Json, invalid

MAX_ID: Final = 128
"""Characters of a stream id."""
MAX_CREDIT: Final = 2**31 - 1
_COMMON: Final = frozenset({"type", "stream_id"})
FIELDS: Final[dict[str, frozenset[str] | None]] = {
    "start": None,
    "stop": frozenset(),
    "cancel": frozenset(),
    "update": frozenset({"stop", "max_tokens"}),
    "credit": frozenset({"frames"}),
    "resume": frozenset({"id", "after", "credit"}),
    "observe": frozenset({"id", "credit"}),
    "ping": frozenset(),
}
"""By type, in addition to `type` and `stream_id`; None: those of a request."""
EXAMPLES: Final[dict[str, Json]] = {
    "start": {"prompt": "Hi"},
    "stop": {},
    "cancel": {},
    "update": {"max_tokens": 100},
    "credit": {"frames": 8},
    "resume": {"id": "ID"},
    "observe": {"id": "ID"},
}
"""A message of each type with a stream, for hints; `ID` is the `id` of a `start` frame."""


def kind(message: Mapping[str, Any]) -> str:
    """The type of the message, if all of its fields belong to that type."""
    value = message.get("type")
    if not isinstance(value, str) or value not in FIELDS:
        type_ = "no type" if value is None else f"the unknown type {str(value)[:64]!r}"
        names = ", ".join(f"`{name}`" for name in FIELDS)
        raise _invalid(f"the message has {type_}", f"the types are {names}; {example('start')}")
    fields = FIELDS[value]
    if fields is not None and (unknown := sorted(message.keys() - fields - _COMMON)):
        names = ", ".join(f"`{name[:64]}`" for name in unknown[:8])
        known = ", ".join(f"`{name}`" for name in sorted(fields | _COMMON))
        raise _invalid(f"`{value}` has no field {names}", f"its fields are {known}")
    return value


def stream_id(message: Mapping[str, Any]) -> str:
    value = optional_stream_id(message)
    if value is None:
        hint = f"`stream_id` is a string of 1 to {MAX_ID} characters, chosen by the client"
        kind = str(message["type"])
        raise _invalid(f"`{kind}` has no `stream_id`", f"{hint}; {example(kind)}")
    return value


def optional_stream_id(message: Mapping[str, Any]) -> str | None:
    value = message.get("stream_id")
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID else None


def body(message: Mapping[str, Any]) -> Json:
    """The request of a `start`."""
    return {name: value for name, value in message.items() if name not in (*_COMMON, "credit")}


def frames(message: Mapping[str, Any], name: str = "frames", least: int = 1) -> int:
    """How many frames the client grants."""
    count = message.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or not least <= count <= MAX_CREDIT:
        hint = example(str(message["type"])) if message["type"] == "credit" else None
        raise _invalid(f"`{name}` must be a number of frames, {least} or more", hint)
    return count


def credit(message: Mapping[str, Any]) -> int | None:
    """How many frames a stream may send at first; None: without limit."""
    return None if message.get("credit") is None else frames(message, "credit", 0)


def text(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    if value is not None and not isinstance(value, str):
        raise _invalid(f"`{name}` must be a string")
    return value


def answer_id(message: Mapping[str, Any]) -> str:
    """The id of the stream to resume or observe."""
    value = text(message, "id")
    if not value:
        kind = str(message["type"])
        hint = f"use the `id` of the `start` frame; {example(kind)}"
        raise _invalid(f"`{kind}` has no `id`", hint)
    return value


def changes(message: Mapping[str, Any]) -> Json:
    """What an `update` changes."""
    values = {name: message[name] for name in ("stop", "max_tokens") if name in message}
    if not values:
        hint = f"set `stop`, `max_tokens` or both; {example('update')}"
        raise _invalid("`update` changes nothing", hint)
    if not isinstance(values.get("stop", ()), (str, list, tuple)):
        raise invalid("`stop` must be a string or a list of strings")
    return values


def example(kind: str) -> str:
    """The end of a hint: a message of that type that the server takes."""
    return f"for example {json.dumps({'type': kind, 'stream_id': '1', **EXAMPLES[kind]})}"


def _invalid(message: str, hint: str | None = None) -> Rejection:
    return Rejection(400, "transport.message-invalid", message, hint=hint)
