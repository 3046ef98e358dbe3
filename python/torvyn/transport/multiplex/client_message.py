"""A client's message on a channel of many streams -> what it says. Pure.

The messages are records, however a transport spells them. A type or a field that nobody knows is a
mistake, as in a body of `/v1/streams`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torvyn.transport.rejection import Rejection
from torvyn.transport.request_body import Json, invalid

MOST_ID: Final = 128
"""Characters of a stream's id."""
MOST_CREDIT: Final = 2**31 - 1
_OWN: Final = frozenset({"type", "stream_id"})
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
"""By type, besides `type` and `stream_id`; None: those of a request."""


def kind(message: Mapping[str, Any]) -> str:
    """Its type, when all of its fields belong to it."""
    found = message.get("type")
    if not isinstance(found, str) or found not in FIELDS:
        shown = "no type" if found is None else f"the type {str(found)[:64]!r}"
        names = ", ".join(f"`{name}`" for name in FIELDS)
        raise _wrong(f"a message has {shown}", f"the types are {names}")
    fields = FIELDS[found]
    if fields is not None and (unknown := sorted(message.keys() - fields - _OWN)):
        names = ", ".join(f"`{name[:64]}`" for name in unknown[:8])
        wanted = ", ".join(f"`{name}`" for name in sorted(fields | _OWN))
        raise _wrong(f"`{found}` has no field {names}", f"its fields are {wanted}")
    return found


def stream_id(message: Mapping[str, Any]) -> str:
    found = named(message)
    if found is None:
        words = f"`stream_id` is a text of 1 to {MOST_ID} characters, chosen by the client"
        raise _wrong(f"`{message['type']}` names no stream", words)
    return found


def named(message: Mapping[str, Any]) -> str | None:
    """The stream that it is about, if it names one at all."""
    found = message.get("stream_id")
    return found if isinstance(found, str) and 0 < len(found) <= MOST_ID else None


def body(message: Mapping[str, Any]) -> Json:
    """The request of a `start`."""
    return {name: value for name, value in message.items() if name not in (*_OWN, "credit")}


def frames(message: Mapping[str, Any], name: str = "frames", least: int = 1) -> int:
    """How many frames are granted."""
    count = message.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or not least <= count <= MOST_CREDIT:
        raise _wrong(f"`{name}` is a number of frames, {least} or more")
    return count


def credit(message: Mapping[str, Any]) -> int | None:
    """What a stream may send at first; None: all it has."""
    return None if message.get("credit") is None else frames(message, "credit", 0)


def text(message: Mapping[str, Any], name: str) -> str | None:
    found = message.get(name)
    if found is not None and not isinstance(found, str):
        raise _wrong(f"`{name}` is a text")
    return found


def answer_id(message: Mapping[str, Any]) -> str:
    """Of the answer that somebody comes back to."""
    found = text(message, "id")
    if not found:
        raise _wrong(f"`{message['type']}` names no answer", "`id` is the one of its `start` frame")
    return found


def changes(message: Mapping[str, Any]) -> Json:
    """What an `update` changes."""
    found = {name: message[name] for name in ("stop", "max_tokens") if name in message}
    if not found:
        raise _wrong("`update` changes nothing", "`stop`, `max_tokens` or both")
    if not isinstance(found.get("stop", ()), (str, list, tuple)):
        raise invalid("`stop` is a text or a list of texts")
    return found


def _wrong(message: str, hint: str | None = None) -> Rejection:
    return Rejection(400, "transport.message-invalid", message, hint=hint)
