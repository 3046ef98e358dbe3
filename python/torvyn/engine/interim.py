"""Stand-ins in Python for the native text machines, behind their interface."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any, NamedTuple


class TextStreamer:
    def __init__(self, vocabulary: Any = None, *, skip_special: bool = True) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def put(self, piece: Sequence[int] | bytes) -> str:
        if not isinstance(piece, bytes):
            piece = b"".join(self._vocabulary.token_bytes(token) for token in piece)
        return self._decoder.decode(piece)

    def finish(self) -> str:
        return self._decoder.decode(b"", True)


class StopStrings:
    def __init__(self, stops: Sequence[str], include: bool = False) -> None:
        self._stops = tuple(stops)
        self._include = include
        self._held = ""
        self.matched: str | None = None

    def put(self, text: str) -> str:
        if self.matched is not None:
            return ""
        text = self._held + text
        found = [
            (text.index(stop) + len(stop), rank, stop)
            for rank, stop in enumerate(self._stops)
            if stop in text
        ]
        if found:
            end, _, self.matched = min(found)
            self._held = ""
            return text[:end] if self._include else text[: end - len(self.matched)]
        keep = max(
            (
                size
                for stop in self._stops
                for size in range(min(len(stop) - 1, len(text)), 0, -1)
                if text.endswith(stop[:size])
            ),
            default=0,
        )
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


class Event(NamedTuple):
    event: str
    data: str
    id: str


class EventParser:
    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._event = ""
        self._is_first = True

    def put(self, piece: bytes) -> list[Event]:
        *lines, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        return [event for line in lines if (event := self._line(line)) is not None]

    def finish(self) -> list[Event]:
        return []

    def _line(self, line: bytes) -> Event | None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            data, self._data = self._data, []
            event, self._event = self._event, ""
            return Event(event, "\n".join(data), "") if data else None
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        return None
