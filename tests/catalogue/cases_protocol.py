"""One provocation for each code of the protocol."""

from collections.abc import Callable
from pathlib import Path

from torvyn.protocol import EventParser
from torvyn.protocol.chunks import ChunkDecoder


def _bad_chunk(_folder: Path) -> None:
    ChunkDecoder().put(b"data: {oops\n\n")


def _event_too_large(_folder: Path) -> None:
    EventParser(event_limit=4).put(b"data: 12345\n")


def _line_too_long(_folder: Path) -> None:
    EventParser(line_limit=4).put(b"data: 12345")


def _stream_cut(_folder: Path) -> None:
    decoder = ChunkDecoder()
    decoder.put(b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
    decoder.finish()


CASES: dict[str, Callable[[Path], None]] = {
    "protocol.bad-chunk": _bad_chunk,
    "protocol.event-too-large": _event_too_large,
    "protocol.line-too-long": _line_too_long,
    "protocol.stream-cut": _stream_cut,
}
