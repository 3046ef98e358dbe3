"""How much of an answer its readers have, and what of the same answer, generated again, is new.

Text is skipped by character, not by piece, because it may be split differently; and its checksum is
compared, so that a different answer is an error: two answers are never joined.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from torvyn.engine.delta import Delta, Piece, as_delta
from torvyn.errors import Unavailable

SEND_AGAIN: Final = "send the request again"
Key = tuple[int, str]
"""A choice, and a part of it: `text`, `reasoning`, or `call N`."""


class Progress:
    """How much of each choice readers have: characters and their checksum."""

    def __init__(self, counts: dict[Key, tuple[int, int]] | None = None) -> None:
        self.counts = dict(counts or {})

    @classmethod
    def parse(cls, text: str) -> Progress:
        return cls.of(json.loads(text).get("said", ()))

    @classmethod
    def of(cls, entries: Iterable[Sequence[Any]]) -> Progress:
        return cls({(entry[0], entry[1]): (entry[2], entry[3]) for entry in entries})

    def entries(self) -> list[list[Any]]:
        """As JSON can hold it."""
        return [[index, part, *counts] for (index, part), counts in self.counts.items()]

    def to_json(self) -> str:
        return json.dumps({"said": self.entries()})

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


class Rest:
    """What of an answer is new behind a progress, and whether it is the same answer."""

    def __init__(self, progress: Progress, hint: str = SEND_AGAIN) -> None:
        self._hint = hint
        self._left = {key: count for key, (count, _) in progress.counts.items()}
        self._expected = {key: crc for key, (_, crc) in progress.counts.items()}
        self._crcs: dict[Key, int] = {}
        self.is_different = False

    def of(self, piece: Piece) -> Piece | None:
        """What of the piece is new; None if nothing is. Look at `is_different` afterwards."""
        delta = as_delta(piece)
        key, text = key_of(delta)
        if key not in self._expected:
            return piece
        new = self._new_text(key, text)
        if delta.call is not None:
            return _without_head(delta, new) if new else None
        if new == text:
            return piece
        if not new and delta.finish_reason is None and delta.usage is None:
            return None
        return replace(delta, text=new, logprobs=None, token_ids=[])

    def check(self) -> None:
        """Raises if it is another answer."""
        if self.is_different:
            raise generation_lost("it differs now", self._hint)

    def check_end(self) -> None:
        """Raises at the end of the answer if it is another one."""
        self.check()
        if any(self._left.values()):
            raise generation_lost("it is shorter now", self._hint)

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


def key_of(delta: Delta) -> tuple[Key, str]:
    """The part of the answer that a delta belongs to, and its text."""
    call = delta.call
    if call is not None:
        return (delta.index, f"call {call.index}"), call.arguments
    return (delta.index, delta.kind), delta.text


def _without_head(delta: Delta, arguments: str) -> Delta:
    """A tool call without its id and name: they came with its first piece."""
    assert delta.call is not None
    return replace(delta, call=replace(delta.call, id=None, name=None, arguments=arguments))


def generation_lost(why: str, hint: str = SEND_AGAIN) -> Unavailable:
    message = f"the rest of the answer is lost: {why}"
    return Unavailable(message, code="session.generation-lost", hint=hint)


def _crc(text: str, crc: int) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), crc)
