"""One provocation for each code of the protocol."""

from collections.abc import Callable
from pathlib import Path

from torvyn.protocol import ChunkDecoder, Decoder, EventParser, PartialJson


def _bad_chunk(_folder: Path) -> None:
    ChunkDecoder().put(b"data: {oops\n\n")


def _bad_frame(_folder: Path) -> None:
    Decoder("torvyn").put(b'data: {"type":"delta"}\n\n')


def _bad_json(_folder: Path) -> None:
    PartialJson().put('{"a":]')


def _json_too_deep(_folder: Path) -> None:
    PartialJson(depth_limit=4).put("[[[[[")


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
    "protocol.bad-frame": _bad_frame,
    "protocol.bad-json": _bad_json,
    "protocol.json-too-deep": _json_too_deep,
    "protocol.event-too-large": _event_too_large,
    "protocol.line-too-long": _line_too_long,
    "protocol.stream-cut": _stream_cut,
}
