"""Decodes the bytes of an answer into frames, for clients: `decode(encode(x)) == x`.

In OpenAI's dialects, frames are numbered as they arrive, and there are no meta frames or timing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Final

from torvyn._native import EventParser
from torvyn.protocol.encoder import Dialect, Framing
from torvyn.protocol.failures import bad_frame, cut, line_too_long
from torvyn.protocol.frames import (
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    Finish,
    FinishReason,
    Frame,
    HeartbeatFrame,
    MetaFrame,
    StartFrame,
    ToolCall,
    Usage,
)
from torvyn.protocol.openai.chunk_decoder import ChunkDecoder, ChunkDialect, ChunkReader, Item

LINE_LIMIT = 8 << 20
_OF_FINISH: Final = frozenset(field.name for field in fields(Finish))


class Decoder:
    """Decodes one stream. `choices` is the `n` of the request."""

    def __init__(self, dialect: Dialect, framing: Framing = "sse", *, choices: int = 1) -> None:
        self._split = _Lines() if framing == "lines" else None
        self._events = EventParser() if framing == "sse" and dialect == "torvyn" else None
        self._answer = None if dialect == "torvyn" else _Answer(dialect, framing, choices)
        self._is_over = False

    @property
    def last_event_id(self) -> str:
        """The id of the last event, `<epoch>-<seq>`, from which a stream resumes; torvyn only."""
        return self._events.last_event_id if self._events is not None else ""

    def put(self, data: bytes) -> list[Frame]:
        """Every frame that these bytes complete."""
        if self._answer is not None:
            return self._answer.put(data, self._split.put(data) if self._split else [])
        frames = [self._read(text) for text in self._texts(data)]
        return [frame for frame in frames if frame is not None]

    def finish(self) -> list[Frame]:
        """The connection has ended; raises if the answer is incomplete."""
        if self._answer is not None:
            return self._answer.finish(self._split.held_bytes if self._split else 0)
        if self._events is not None:
            self._events.finish()
        if not self._is_over:
            buffered = self._events.held_bytes if self._events else 0
            raise cut([], buffered + (self._split.held_bytes if self._split else 0))
        return []

    def _texts(self, data: bytes) -> list[str]:
        if self._events is not None:
            return [event.data for event in self._events.put(data)]
        lines = [data] if self._split is None else self._split.put(data)
        return [_utf8(line) for line in lines]

    def _read(self, text: str) -> Frame | None:
        frame = frame_from(_parsed(text), text)
        self._is_over = self._is_over or isinstance(frame, EndFrame)
        return frame


def _utf8(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise bad_frame("it is not UTF-8", repr(line)) from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_frame(str(error).partition(":")[0], text) from None


def frame_from(record: Any, text: str = "") -> Frame | None:
    """The frame of a parsed object; None for an unknown type, which a later version may add."""
    try:
        return _frame(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise bad_frame(f"{type(error).__name__} {error}", text or repr(record)) from None


def _frame(record: Mapping[str, Any]) -> Frame | None:
    match record["type"]:
        case "start":
            keys = ("id", "flow", "created", "version")
            return StartFrame(*(record[key] for key in keys))
        case "delta":
            return _delta(record)
        case "meta":
            return MetaFrame(record["seq"], dict(record["data"]))
        case "error":
            return ErrorFrame(record["seq"], record["code"], record["message"], record["retryable"])
        case "end":
            return _end(record)
        case "heartbeat":
            return HeartbeatFrame()
        case _:
            return None


def _delta(record: Mapping[str, Any]) -> DeltaFrame:
    call, logprobs = record.get("call"), record.get("logprobs")
    return DeltaFrame(
        seq=record["seq"],
        index=record["index"],
        kind=record["kind"],
        text=record.get("text", ""),
        call=None if call is None else ToolCall(**call),
        logprobs=None if logprobs is None else tuple(logprobs),
    )


def _end(record: Mapping[str, Any]) -> EndFrame:
    usage = record.get("usage")
    if usage is not None:
        usage = Usage(**{name: count for name, count in usage.items() if name != "total_tokens"})
    finish = tuple(_finish(one) for one in record["finish"])
    return EndFrame(record["seq"], finish, usage, record.get("timing"))


def _finish(one: Mapping[str, Any]) -> Finish:
    """Ignores members that a later version may add."""
    known = {name: value for name, value in one.items() if name in _OF_FINISH}
    return Finish(**known)


class _Answer:
    """Turns the items of a stream of chunks into frames."""

    def __init__(self, dialect: ChunkDialect, framing: Framing, choices: int) -> None:
        self._chunks = ChunkDecoder(dialect, choices=choices)
        self._reader = ChunkReader(choices) if framing == "lines" else None
        self._choices = choices
        self._finish: dict[int, Finish] = {}
        self._usage: Usage | None = None
        self._broken: FinishReason = "error"
        self._seq = 0

    def put(self, data: bytes, lines: list[bytes]) -> list[Frame]:
        items: Iterable[Item]
        if (reader := self._reader) is None:
            items = self._chunks.put(data)
        else:
            items = (item for line in lines for item in reader.chunk(_utf8(line)))
        return [frame for item in items for frame in self._gather(item)]

    def finish(self, held_bytes: int) -> list[Frame]:
        reader = self._reader
        items = self._chunks.finish() if reader is None else reader.finish(held_bytes)
        return [frame for item in items for frame in self._gather(item)]

    def _gather(self, item: Item) -> Iterator[Frame]:
        match item:
            case Finish():
                self._finish[item.index] = item
            case Usage():
                self._usage = item
            case ErrorFrame(code="cancelled"):
                self._broken = "cancelled"
            case ErrorFrame():
                yield self._numbered(item)
            case DeltaFrame():
                yield self._numbered(item)
            case StartFrame():
                yield item
            case _:
                yield self._end()

    def _numbered(self, item: DeltaFrame | ErrorFrame) -> DeltaFrame | ErrorFrame:
        self._seq += 1
        return item if item.seq == self._seq else replace(item, seq=self._seq)

    def _end(self) -> EndFrame:
        indexes = sorted({*range(self._choices), *self._finish})
        reason = self._broken
        finish = tuple(self._finish.get(index) or Finish(index, reason) for index in indexes)
        return EndFrame(self._seq + 1, finish, self._usage)


class _Lines:
    """Splits bytes into lines; the limit bounds the memory that a peer can use."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.held_bytes = 0

    def put(self, data: bytes) -> list[bytes]:
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._parts, whole[0]))
            self._parts, self.held_bytes = [], 0
        self._parts.append(rest)
        self.held_bytes += len(rest)
        if self.held_bytes > LINE_LIMIT or any(len(line) > LINE_LIMIT for line in whole):
            raise line_too_long(LINE_LIMIT)
        return [line for line in whole if line.strip()]
