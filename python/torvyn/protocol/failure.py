"""What can be wrong on a wire, in words. The native parsers call `wire_failure` with a kind."""

from __future__ import annotations

from typing import Final

from torvyn.errors import InvalidInput

_WIRE: Final[dict[str, tuple[str, str]]] = {
    "line-too-long": (
        "protocol.line-too-long",
        "a line of the event stream has more than {0} bytes",
    ),
    "event-too-large": (
        "protocol.event-too-large",
        "the data of an event has more than {0} bytes",
    ),
}
_SHOWN: Final = 80


def wire_failure(kind: str, number: int) -> InvalidInput:
    """The error of a native parser: its kind, and the limit or the place it speaks of."""
    code, words = _WIRE[kind]
    return InvalidInput(words.format(number), code=code)


def bad_chunk(why: str, data: str) -> InvalidInput:
    """An upstream sent what no dialect of OpenAI has."""
    shown = ascii(data[:_SHOWN]) + ("..." if len(data) > _SHOWN else "")
    return InvalidInput(f"a chunk of the upstream is wrong: {why}: {shown}", code=BAD_CHUNK)


def cut(open_choices: list[int], held_bytes: int) -> InvalidInput:
    """A stream ended before its answer did."""
    where = f"choice {', '.join(map(str, open_choices))}" if open_choices else "its end"
    inside = f", inside an event of {held_bytes} bytes" if held_bytes else ""
    message = f"the stream was cut before {where} was finished{inside}"
    return InvalidInput(message, code="protocol.stream-cut")


BAD_CHUNK: Final = "protocol.bad-chunk"
