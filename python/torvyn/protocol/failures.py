"""What can be wrong on a wire, in words. The native parsers call `wire_failure` with a kind."""

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
    "json-malformed": ("protocol.bad-json", "the text is not JSON from byte {0} on"),
    "json-unfinished": ("protocol.bad-json", "the JSON ends too early, after {0} bytes"),
    "json-too-deep": ("protocol.json-too-deep", "the JSON is nested more than {0} deep"),
    "number-too-long": ("protocol.bad-json", "a number of the JSON has {0} digits"),
}
_SHOWN: Final = 80


def wire_failure(kind: str, number: int) -> InvalidInput:
    """The error of a native parser: its kind, and the limit or the place it speaks of."""
    code, words = _WIRE[kind]
    return InvalidInput(words.format(number), code=code)


def line_too_long(limit: int) -> InvalidInput:
    return wire_failure("line-too-long", limit)


def bad_frame(why: str, data: str) -> InvalidInput:
    """A peer sent what is no frame of ours."""
    return InvalidInput(f"a frame is wrong: {why}: {_shown(data)}", code="protocol.bad-frame")


def bad_chunk(why: str, data: str) -> InvalidInput:
    """An upstream sent what no dialect of OpenAI has."""
    message = f"a chunk of the upstream is wrong: {why}: {_shown(data)}"
    return InvalidInput(message, code="protocol.bad-chunk")


def cut(open_choices: list[int], held_bytes: int) -> InvalidInput:
    """A stream ended before its answer did."""
    where = f"choice {', '.join(map(str, open_choices))}" if open_choices else "its end"
    inside = f", inside an event of {held_bytes} bytes" if held_bytes else ""
    message = f"the stream was cut before {where} was finished{inside}"
    return InvalidInput(message, code="protocol.stream-cut")


def _shown(data: str) -> str:
    return ascii(data[:_SHOWN]) + ("..." if len(data) > _SHOWN else "")
