"""Replay: an answer generated again, from where its frames left off.

A replayable engine generates the same text again. What clients have is skipped by character, not by
frame, because the text may be split differently; and its checksum is compared, so that a flow that
has changed ends the session instead of joining two different answers.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

from torvyn.engine.answer.answer import Answer, AnswerWrapper, Reader
from torvyn.engine.delta import Delta, Piece, as_delta
from torvyn.errors import Unavailable

Key = tuple[int, str]
"""A choice, and a part of it: `text`, `reasoning`, or `call N`."""


class Progress:
    """How much of each choice clients have: characters and their checksum."""

    def __init__(self, counts: dict[Key, tuple[int, int]] | None = None) -> None:
        self.counts = dict(counts or {})

    @classmethod
    def parse(cls, text: str) -> Progress:
        entries = json.loads(text).get("said", ())
        return cls({(entry[0], entry[1]): (entry[2], entry[3]) for entry in entries})

    def to_json(self) -> str:
        entries = [[index, part, *counts] for (index, part), counts in self.counts.items()]
        return json.dumps({"said": entries})

    def add_frame(self, frame: bytes) -> None:
        """A frame of our dialect."""
        record = json.loads(frame)
        if record["type"] != "delta":
            return
        call = record.get("call")
        if call is None:
            self.add((record["index"], record["kind"]), record.get("text", ""))
        else:
            self.add((record["index"], f"call {call['index']}"), call.get("arguments", ""))

    def add(self, key: Key, text: str) -> None:
        count, crc = self.counts.get(key, (0, 0))
        self.counts[key] = (count + len(text), _crc(text, crc))


class ReplayedAnswer(AnswerWrapper):
    """An answer whose pieces begin where the progress ends."""

    def __init__(self, answer: Answer, progress: Progress) -> None:
        super().__init__(answer)
        self._progress = progress
        self._skipped_tokens = 0

    @property
    def skipped_tokens(self) -> int:
        return self._skipped_tokens

    async def push(self, reader: Reader) -> None:
        rest = _RestReader(reader, self, self._progress)
        await self._answer.push(rest)
        if rest.is_different:
            raise generation_lost("it differs now")
        if rest.is_shorter:
            raise generation_lost("it is shorter now")

    def count_skipped(self) -> None:
        """All tokens so far were generated before."""
        self._skipped_tokens = self._answer.usage.completion_tokens


class _RestReader:
    """Passes on what is new in each piece, and compares what is not."""

    def __init__(self, reader: Reader, answer: ReplayedAnswer, progress: Progress) -> None:
        self._reader = reader
        self._answer = answer
        self._left = {key: count for key, (count, _) in progress.counts.items()}
        self._expected = {key: crc for key, (_, crc) in progress.counts.items()}
        self._crcs: dict[Key, int] = {}
        self.flush = reader.flush
        self.is_different = False

    @property
    def is_shorter(self) -> bool:
        return any(self._left.values())

    def add(self, piece: Piece) -> bool:
        rest = None if self.is_different else self._rest(piece)
        if self.is_different:
            self._answer.close()
        elif rest is None:
            self._answer.count_skipped()
        else:
            return self._reader.add(rest)
        return False

    def _rest(self, piece: Piece) -> Piece | None:
        """What of the piece is new."""
        delta = as_delta(piece)
        call = delta.call
        if call is not None:
            key, text = (delta.index, f"call {call.index}"), call.arguments
        else:
            key, text = (delta.index, delta.kind), delta.text
        if key not in self._expected:
            return piece
        new = self._new_text(key, text)
        if call is not None:
            return _without_head(delta, new) if new else None
        if new == text:
            return piece
        if not new and delta.finish_reason is None and delta.usage is None:
            return None
        return replace(delta, text=new, logprobs=None, token_ids=[])

    def _new_text(self, key: Key, text: str) -> str:
        left = self._left[key]
        if not left:
            return text
        old = text[:left]
        self._left[key] = left - len(old)
        self._crcs[key] = _crc(old, self._crcs.get(key, 0))
        if not self._left[key] and self._crcs[key] != self._expected[key]:
            self.is_different = True
        return text[len(old) :]


def _without_head(delta: Delta, arguments: str) -> Delta:
    """A tool call without its id and name: they came with its first piece."""
    assert delta.call is not None
    return replace(delta, call=replace(delta.call, id=None, name=None, arguments=arguments))


def generation_lost(why: str) -> Unavailable:
    return Unavailable(
        f"the rest of the answer is lost: {why}",
        code="session.generation-lost",
        hint="send the request again",
    )


def _crc(text: str, crc: int) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), crc)
