"""Errors of decoders. The native parsers call `wire_failure` with a kind."""

from __future__ import annotations

from typing import Final

from torvyn.errors import InvalidInput

_WIRE: Final[dict[str, tuple[str, str]]] = {
    "line-too-long": (
        "protocol.line-too-long",
        "a line of the stream has more than {0} bytes",
    ),
    "event-too-large": (
        "protocol.event-too-large",
        "the data of an event has more than {0} bytes",
    ),
    "json-malformed": ("protocol.bad-json", "the text is not valid JSON: error at byte {0}"),
    "json-unfinished": ("protocol.bad-json", "the JSON is incomplete: it ends after {0} bytes"),
    "json-too-deep": ("protocol.json-too-deep", "the JSON is nested more than {0} levels deep"),
    "number-too-long": (
        "protocol.bad-json",
        "a number has too many digits: {0}",
    ),
}
_SHOWN: Final = 80


def wire_failure(kind: str, number: int) -> InvalidInput:
    """The error of a native parser. `number` is the limit or the position."""
    code, message = _WIRE[kind]
    return InvalidInput(message.format(number), code=code)


def line_too_long(limit: int) -> InvalidInput:
    return wire_failure("line-too-long", limit)


def bad_frame(why: str, data: str) -> InvalidInput:
    """A peer sent an invalid frame."""
    return InvalidInput(f"invalid frame: {why}: {_shown(data)}", code="protocol.bad-frame")


def bad_chunk(why: str, data: str) -> InvalidInput:
    """An upstream sent an invalid chunk."""
    message = f"invalid chunk from the upstream: {why}: {_shown(data)}"
    return InvalidInput(message, code="protocol.bad-chunk")


def cut(open_choices: list[int], held_bytes: int) -> InvalidInput:
    """A stream ended before its answer did."""
    where = (
        f"choice {', '.join(map(str, open_choices))} was complete" if open_choices else "its end"
    )
    inside = f", {held_bytes} bytes into an event" if held_bytes else ""
    message = f"the stream ended before {where}{inside}"
    return InvalidInput(message, code="protocol.stream-cut")


def _shown(data: str) -> str:
    return ascii(data[:_SHOWN]) + ("..." if len(data) > _SHOWN else "")
