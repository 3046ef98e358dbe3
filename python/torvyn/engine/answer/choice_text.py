"""One choice of an answer: an engine's steps -> deltas of text.

Characters that were cut in two are joined, stop strings are cut exactly wherever the tokens were
cut, and the choice ends once. Pure: no clock, no I/O, no loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torvyn.engine.delta import Delta
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import Internal
from torvyn.protocol.frames import FinishReason, Kind, ToolCall
from torvyn.protocol.openai.surrogate_pairs import Halves, encodable
from torvyn.text import StopStrings, TextStreamer


class ChoiceText:
    """One choice: tokens in, text out, until it has finished.

    Tokens whose text is still held wait with it: a delta's ids and log probabilities belong to its
    text or to text before it, never to text that is still to come.
    """

    __slots__ = (
        "_halves",
        "_ids",
        "_includes",
        "_index",
        "_kind",
        "_limit",
        "_logprobs",
        "_native_reason",
        "_released",
        "_stops",
        "_streamer",
        "_vocabulary",
        "finish_reason",
        "is_changed",
        "is_cut",
        "matched_stop",
        "reasoning_tokens",
        "tokens",
    )

    def __init__(self, index: int, request: Request, vocabulary: Any, limit: int | None) -> None:
        self._index = index
        self._vocabulary = vocabulary
        self._limit = limit
        self._streamer: TextStreamer | None = None
        self._stops = StopStrings([*request.stop], request.include_stop) if request.stop else None
        self._includes = request.include_stop
        self.is_changed = False
        self._released = ""
        """Text that new stop strings have let go, and nobody was given yet."""
        self._kind: Kind = "text"
        self._halves: Halves | None = None
        """Halves of surrogate pairs that wait for the other one; few engines ever send any."""
        self._native_reason: str | None = None
        self._ids: list[int] = []
        self._logprobs: list[Mapping[str, Any]] | None = [] if request.logprobs else None
        self.tokens = 0
        self.reasoning_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.matched_stop: str | None = None
        self.is_cut = False
        """It was ended here, while the engine would have gone on."""

    def update(self, request: Request, *, is_stop: bool, is_limit: bool) -> None:
        """Other stop strings or another limit, for what has not left yet; what that lets go, and
        an end that is due, come with the next step: see `heed`."""
        self.is_changed = True
        if is_limit:
            self._limit = request.max_tokens
        if not is_stop:
            return
        if self._stops is None:
            self._stops = StopStrings([*request.stop], self._includes) if request.stop else None
        elif request.stop:
            self._released += self._stops.replace([*request.stop])
        else:
            self._released += self._stops.finish()
            self._stops = None

    @property
    def is_due(self) -> bool:
        """It has all that it may have."""
        has_stopped = self._stops is not None and self._stops.matched is not None
        return has_stopped or (self._limit is not None and self.tokens >= self._limit)

    def take(self, part: ChoiceStep, out: list[Delta]) -> None:
        ids, finish = part.token_ids, part.finish_reason
        count = len(ids) if ids else part.tokens if part.data or part.text or part.call else 0
        if count and self._limit is not None and self.tokens + count >= self._limit:
            over = self.tokens + count - self._limit
            if over or finish is None:
                finish, self.is_cut = "length", True
            if ids:
                count -= over
                ids = ids[:count]
        self.tokens += count
        if part.kind != self._kind:
            self._turn_to(part.kind, out)
        if part.kind == "reasoning":
            self.reasoning_tokens += count
        if ids:
            self._ids += ids
        if part.logprobs and self._logprobs is not None:
            self._logprobs += part.logprobs[: len(ids)] if ids else part.logprobs
        if part.call is not None:
            out.append(self._delta("", call=self._whole_call(part.call)))
        text = self._text(part, ids)
        if self._stops is not None and text and part.kind == "text":
            text = self._stops.put(text)
            if self._stops.matched is not None:
                self._finish("stop", text, self._stops.matched, out)
                self.is_cut = True
                return
        if finish is not None:
            self._native_reason = None if self.is_cut else part.native_reason
            self._finish(finish, text + self._tail(out), part.matched_stop, out)
        elif text:
            is_plain = not self._ids and not self._logprobs and self._kind == "text"
            out.append(Delta(self._index, text) if is_plain else self._delta(text))

    def plain(self, step: Step) -> str | None:
        """What the step adds, when that is text of this choice, nothing else, and nothing ends by
        it. None: it is for `take`."""
        if step.usage is not None or len(step.choices) != 1:
            return None
        part = step.choices[0]
        if part.finish_reason is not None or part.call is not None or part.token_ids or part.index:
            return None
        if part.kind != "text" or self._kind != "text" or self._stops is not None or self._ids:
            return None
        if self.is_changed or self.finish_reason is not None:
            return None
        if self._limit is not None and self.tokens + part.tokens >= self._limit:
            return None
        text = part.text
        if not text:
            if not part.data:
                return None
            text = self._decode(part.data)
        elif not text.isascii() or self._halves is not None:
            text = self._whole(text)
        self.tokens += part.tokens
        return text

    def end(self, reason: FinishReason, out: list[Delta], *, keeps_held: bool = True) -> None:
        """No more will come. What is held is let go, or with a cancellation dropped."""
        if self.finish_reason is None:
            if keeps_held:
                self._release(out)
            self._finish(reason, self._tail(out) if keeps_held else "", None, out)

    def heed(self, out: list[Delta]) -> None:
        """What an update has let go leaves, and an end that is due by it comes."""
        self.is_changed = False
        self.is_cut = self.is_due
        if self.is_cut:
            self.end("length", out)
        else:
            self._release(out)

    def _release(self, out: list[Delta]) -> None:
        if self._released:
            out.append(Delta(self._index, self._released))
            self._released = ""

    def _text(self, part: ChoiceStep, ids: Sequence[int]) -> str:
        text = part.text
        if not text:
            return self._decode(ids or part.data) if ids or part.data else ""
        return text if text.isascii() and self._halves is None else self._whole(text)

    def _whole(self, text: str, key: str | None = None) -> str:
        """The text with halves of surrogate pairs joined; a first half at its end waits."""
        if self._halves is None:
            # Spelled out: it is done for every token that is not ASCII.
            try:
                text.encode()
            except UnicodeEncodeError:
                self._halves = Halves()
            else:
                return text
        return self._halves.join((self._index, key or self._kind), text)

    def _whole_call(self, call: ToolCall) -> ToolCall:
        """Each call has halves of its own; its name and id come in one piece."""
        parts = (call.id or "", call.name or "", call.arguments)
        if self._halves is None and all(map(str.isascii, parts)):
            return call
        id, name = (None if part is None else encodable(part) for part in (call.id, call.name))
        return ToolCall(call.index, id, name, self._whole(call.arguments, str(call.index)))

    def _decode(self, piece: Any) -> str:
        if self._streamer is None:
            if self._vocabulary is None and not isinstance(piece, bytes):
                raise wrong_step("token ids, but it has no vocabulary to read them with")
            self._streamer = TextStreamer(self._vocabulary)
        return self._streamer.put(piece)

    def _turn_to(self, kind: Kind, out: list[Delta]) -> None:
        """Text and reasoning never mix: an unfinished character stays with the kind it is of."""
        streamer, self._streamer = self._streamer, None
        if streamer is not None and (text := streamer.finish()):
            if self._kind == "text" and self._stops is not None:
                text = self._stops.put(text)
            if text:
                out.append(self._delta(text))
        self._kind = kind

    def _tail(self, out: list[Delta]) -> str:
        """What the machines still hold; it may complete a stop string."""
        text = self._streamer.finish() if self._streamer is not None else ""
        text += self._lone_halves(out)
        if self._stops is None or self._kind == "reasoning":
            return text
        text = self._stops.put(text) if text else ""
        return text if self._stops.matched is not None else text + self._stops.finish()

    def _lone_halves(self, out: list[Delta]) -> str:
        """U+FFFD for each half that stayed alone: given back when it is of the kind that is being
        made, else it leaves at once."""
        text = ""
        for kind, lone in self._halves.release(self._index) if self._halves is not None else ():
            if kind == self._kind:
                text += lone
            elif kind == "reasoning":
                out.append(Delta(self._index, lone, "reasoning"))
            elif kind == "text":
                held = self._stops.put(lone) if self._stops is not None else lone
                out.append(Delta(self._index, held))
            else:
                call = ToolCall(int(kind), arguments=lone)
                out.append(Delta(self._index, "", "tool_call", call))
        return text

    def _finish(
        self, reason: FinishReason, text: str, matched: str | None, out: list[Delta]
    ) -> None:
        if self._stops is not None and self._stops.matched is not None:
            reason, matched, self._native_reason = "stop", self._stops.matched, None
        elif self._kind == "reasoning" and reason != "cancelled":
            self._release_before_reasoning(out)
        self.finish_reason, self.matched_stop = reason, matched
        delta = self._delta(text)
        delta.finish_reason, delta.matched_stop = reason, matched
        delta.native_reason = self._native_reason
        out.append(delta)

    def _release_before_reasoning(self, out: list[Delta]) -> None:
        """Text that was held when the reasoning began."""
        if self._stops is not None and (held := self._stops.finish()):
            out.append(Delta(self._index, held))

    def _delta(self, text: str, call: Any = None) -> Delta:
        kind = self._kind if call is not None or self._kind != "tool_call" else "text"
        delta = Delta(self._index, text, kind, call)
        if self._ids:
            delta.token_ids, self._ids = self._ids, []
        if self._logprobs:
            delta.logprobs, self._logprobs = tuple(self._logprobs), []
        return delta


def wrong_step(what: str) -> Internal:
    return Internal(f"the engine sent {what}", code="engine.step-invalid")
