"""Replay: an answer made once more, from where its frames left off.

An engine that is replayable says the same again. What clients have already is skipped, by
character and not by frame, because the same text may come in other pieces; and it is compared, so
that a flow that was changed meanwhile ends the session instead of joining two answers.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from torvyn.engine.answer.push import Reader, push
from torvyn.engine.delta import Delta
from torvyn.engine.generation import Generation
from torvyn.errors import Unavailable

Key = tuple[int, str]
"""A choice, and what of it: `text`, `reasoning`, or `call N`."""


class Progress:
    """How much of each choice there is: characters, and their checksum."""

    def __init__(self, said: dict[Key, tuple[int, int]] | None = None) -> None:
        self.said = dict(said or {})

    @classmethod
    def parse(cls, text: str) -> Progress:
        held = json.loads(text)
        return cls({(entry[0], entry[1]): (entry[2], entry[3]) for entry in held.get("said", ())})

    def to_json(self) -> str:
        entries = [[index, what, *counts] for (index, what), counts in self.said.items()]
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
        count, crc = self.said.get(key, (0, 0))
        self.said[key] = (count + len(text), _crc(text, crc))


class Replayed:
    """A generation whose deltas begin where the progress ends. All else is the generation's."""

    def __init__(self, generation: Generation, progress: Progress) -> None:
        self._generation = generation
        self._left = {key: count for key, (count, _) in progress.said.items()}
        self._crcs = {key: crc for key, (_, crc) in progress.said.items()}
        self._seen: dict[Key, int] = {}
        self.skipped_tokens = 0
        """Made again, and told before."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generation, name)

    async def push(self, reader: Reader) -> None:
        await push(aiter(self), reader)

    async def __aiter__(self) -> AsyncGenerator[Delta, None]:
        deltas = aiter(self._generation)
        try:
            async for delta in deltas:
                if (rest := self._rest(delta)) is not None:
                    yield rest
                else:
                    self.skipped_tokens = self._generation.usage.completion_tokens
        finally:
            await deltas.aclose()
        if any(self._left.values()):
            raise generation_lost("it is shorter now")

    def _rest(self, delta: Delta) -> Delta | None:
        """What of the delta is new."""
        call = delta.call
        if call is not None:
            key, text = (delta.index, f"call {call.index}"), call.arguments
        else:
            key, text = (delta.index, delta.kind), delta.text
        if key not in self._crcs:
            return delta
        new = self._skip(key, text)
        if call is not None:
            # Its id and name came with its first piece.
            return replace_call(delta, new) if new else None
        if new == text:
            return delta
        if not new and delta.finish_reason is None and delta.usage is None:
            return None
        return replace(delta, text=new, logprobs=None, token_ids=[])

    def _skip(self, key: Key, text: str) -> str:
        left = self._left[key]
        if not left:
            return text
        old = text[:left]
        self._left[key] = left - len(old)
        self._seen[key] = _crc(old, self._seen.get(key, 0))
        if not self._left[key] and self._seen[key] != self._crcs[key]:
            raise generation_lost("it differs now")
        return text[len(old) :]


def replace_call(delta: Delta, arguments: str) -> Delta:
    assert delta.call is not None
    return replace(delta, call=replace(delta.call, id=None, name=None, arguments=arguments))


def generation_lost(why: str) -> Unavailable:
    return Unavailable(
        f"the rest of the answer is lost: {why}",
        code="session.generation-lost",
        hint="ask again",
    )


def _crc(text: str, crc: int) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), crc)
