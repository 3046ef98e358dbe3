"""Decodes streams of OpenAI-compatible upstreams: bytes to deltas, finishes, usage and errors.

Chunks with text only are decoded natively, all others here. Invalid bytes raise `InvalidInput` with
a code `protocol.*`; an error that the upstream sends is an `ErrorFrame` in the stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Any, Final, Literal

from torvyn._native import ChunkParser, ServerEvent
from torvyn.errors import InvalidInput
from torvyn.protocol.failures import bad_chunk, cut
from torvyn.protocol.frames import DeltaFrame, ErrorFrame, Finish, Kind, StartFrame, ToolCall, Usage
from torvyn.protocol.openai import chunk_fields as fields
from torvyn.protocol.openai.surrogate_pairs import SurrogateJoiner

ChunkDialect = Literal["openai-chat", "openai-completions"]


class _Done(Enum):
    DONE = "done"

    def __repr__(self) -> str:
        return "DONE"


MOST_CHOICES: Final = 1024
"""The limit for the index of a choice; a larger index is an error of the upstream."""

DONE: Final = _Done.DONE
"""The upstream sent `[DONE]`, or its answer is complete."""

Item = StartFrame | DeltaFrame | Finish | Usage | ErrorFrame | Literal[_Done.DONE]


class ChunkDecoder:
    """Decodes the bytes of one response.

    Each choice has deltas and then one `Finish`; `Usage` follows if the upstream sends it; `DONE`
    is last. `choices` is the `n` of the request, so that `finish` knows whether some are missing.
    """

    def __init__(self, dialect: ChunkDialect = "openai-chat", *, choices: int = 1) -> None:
        self._parser = ChunkParser(dialect)
        self._reader = ChunkReader(choices)
        self._failure: InvalidInput | None = None

    def put(self, data: bytes) -> list[Item]:
        """Every item that these bytes complete.

        Items before an invalid chunk are returned; the next call then raises its error.
        """
        self._raise_waiting()
        reader = self._reader
        items: list[Item] = []
        try:
            for part in self._parser.put(data):
                if isinstance(part, tuple):
                    items.append(reader.text(*part))
                else:
                    items.extend(reader.event(part))
        except InvalidInput as error:
            if not items:
                raise
            self._failure = error
        return items

    def finish(self) -> list[Item]:
        """The connection has ended. Raises if the answer is incomplete.

        A missing `[DONE]` after the finish of all choices is not an error.
        """
        self._raise_waiting()
        self._parser.finish()
        return self._reader.finish(self._parser.held_bytes)

    @property
    def is_done(self) -> bool:
        return self._reader.is_done

    def _raise_waiting(self) -> None:
        if self._failure is not None:
            raise self._failure


class ChunkReader:
    """The state of one stream: its open and finished choices, and split characters."""

    def __init__(self, choices: int = 1) -> None:
        self.is_done = False
        self.is_begun = False
        self._has_failed = False
        self._seq = 0
        self._surrogates = SurrogateJoiner()
        self._open = set(range(choices))
        self._finished: set[int] = set()
        self._calls: dict[int, list[str]] = {}

    def text(self, index: int, text: str) -> DeltaFrame:
        """A chunk with text only."""
        self._seq += 1
        if self._surrogates:
            text = self._surrogates.join((index, "text"), text)
        if index not in self._open:
            self._see(index)
        return DeltaFrame(self._seq, index, "text", text)

    def event(self, event: ServerEvent) -> Iterator[Item]:
        """Any other chunk."""
        if self.is_done:
            return
        data = event.data
        if data.strip() == "[DONE]":
            yield from self._end()
            return
        yield from self.chunk(data, is_error_event=event.event == "error")

    def chunk(self, data: str, *, is_error_event: bool = False) -> Iterator[Item]:
        """One chunk as JSON text."""
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            if not is_error_event:
                raise bad_chunk(str(error).partition(":")[0], data) from None
            chunk = {"error": data}
        if not isinstance(chunk, dict):
            raise bad_chunk("it is not an object", data)
        yield from self.record(chunk, is_error_event=is_error_event)

    def record(self, chunk: dict[str, Any], *, is_error_event: bool = False) -> Iterator[Item]:
        """One parsed chunk."""
        try:
            yield from self._read(chunk, is_error_event)
        except fields.FieldTypeError as error:
            raise bad_chunk(str(error), json.dumps(chunk)) from None

    def finish(self, held_bytes: int = 0) -> list[Item]:
        if self.is_done:
            return []
        waiting = sorted(self._open - self._finished)
        if (waiting and not self._has_failed) or held_bytes or not self.is_begun:
            raise cut(waiting, held_bytes)
        return list(self._end())

    def _end(self) -> Iterator[Item]:
        for index in sorted(self._open - self._finished):
            yield from self._release(index)
        self.is_done = True
        yield DONE

    def _read(self, chunk: dict[str, Any], is_error_event: bool) -> Iterator[Item]:
        failure = self._error(chunk, is_error_event)
        if failure is not None:
            # OpenRouter sends the error together with a last choice, which still counts.
            yield failure
        elif not self.is_begun and (chunk.get("id") or chunk.get("choices")):
            yield self._start(chunk)
        for index, choice, path in fields.choices(chunk):
            self._see(index)
            yield from self._deltas(index, choice, path)
            finish = fields.finish_reason(choice, path)
            if finish is not None and index not in self._finished:
                self._finished.add(index)
                yield from self._release(index)
                reason, native = finish
                matched, by, side = fields.stop_details(choice)
                yield Finish(index, reason, matched, by, side=side, native_reason=native)
        if (usage := fields.usage(chunk)) is not None:
            yield usage

    def _error(self, chunk: dict[str, Any], is_error_event: bool) -> ErrorFrame | None:
        failure = fields.error(chunk, self._seq + 1, is_error_event=is_error_event)
        if failure is not None:
            self._seq += 1
            self._has_failed = self.is_begun = True
        return failure

    def _start(self, chunk: dict[str, Any]) -> StartFrame:
        self.is_begun = True
        return StartFrame(
            id=fields.member(chunk, "id", str, "") or "",
            flow=fields.member(chunk, "model", str, "") or "",
            created=int(fields.member(chunk, "created", (int, float), "") or 0),
        )

    def _deltas(self, index: int, choice: fields.Json, path: str) -> Iterator[DeltaFrame]:
        logprobs = fields.logprobs(choice, path)
        delta = fields.delta_of(choice, path)
        for kind, text in fields.texts(delta, path):
            joined = self._surrogates.join((index, kind), text)
            if joined:
                yield self._delta(index, kind, joined, logprobs)
                logprobs = None
        for piece in fields.tool_calls(delta, path):
            self._seq += 1
            call = self._whole(index, self._numbered(index, piece))
            yield DeltaFrame(self._seq, index, "tool_call", call=call, logprobs=logprobs)
            logprobs = None
        if logprobs is not None:
            # A special token has a probability and no text.
            yield self._delta(index, "text", "", logprobs)

    def _delta(self, index: int, kind: Kind, text: str, logprobs: Any = None) -> DeltaFrame:
        self._seq += 1
        return DeltaFrame(self._seq, index, kind, text, logprobs=logprobs)

    def _release(self, index: int) -> Iterator[DeltaFrame]:
        for kind, text in self._surrogates.release(index):
            if kind in ("text", "reasoning"):
                yield self._delta(index, "reasoning" if kind == "reasoning" else "text", text)
            else:
                self._seq += 1
                yield DeltaFrame(
                    self._seq, index, "tool_call", call=ToolCall(int(kind), arguments=text)
                )

    def _whole(self, index: int, call: ToolCall) -> ToolCall:
        """The piece without half of a surrogate pair at its end; each call is joined on its own."""
        joined = self._surrogates.join((index, str(call.index)), call.arguments)
        return call if joined == call.arguments else replace(call, arguments=joined)

    def _numbered(self, index: int, call: ToolCall) -> ToolCall:
        """Numbers the calls of providers that send ids instead of indexes."""
        ids = self._calls.setdefault(index, [])
        if call.index >= 0:
            return call
        if not ids or (call.id is not None and call.id not in ids):
            ids.append(call.id or "")
        place = ids.index(call.id) if call.id in ids else len(ids) - 1
        return replace(call, index=place)

    def _see(self, index: int) -> None:
        if not 0 <= index < MOST_CHOICES:
            raise bad_chunk("the index of a choice is out of range", f"choice {index}")
        self._open.add(index)
