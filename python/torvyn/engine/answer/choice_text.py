"""One choice of an answer: parts of an engine's steps -> pieces.

It joins characters that were split over tokens, matches stop strings over token boundaries, and
ends the choice once. Pure: no clock, no I/O, no loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from torvyn.engine.delta import Delta, Piece
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import Internal
from torvyn.protocol.frames import FinishReason, Kind, ToolCall
from torvyn.protocol.openai.surrogate_pairs import SurrogateJoiner, encodable
from torvyn.text import StopStrings, TextStreamer

_UNLIMITED: Final = 2**62
_OWN_ENDS: Final = ("stop", "tool_calls")
"""How an engine ends an answer that nothing has cut."""


class ChoiceText:
    """One choice: tokens in, text out, until it has finished.

    Tokens wait with the text that is held back: the ids and log probabilities of a delta belong to
    its text or to text before it, never to text that follows.
    """

    __slots__ = (
        "_ceiling",
        "_drops_cut",
        "_ids",
        "_includes",
        "_index",
        "_is_only",
        "_kind",
        "_limit",
        "_logprobs",
        "_native_reason",
        "_released",
        "_stops",
        "_streamer",
        "_surrogates",
        "_vocabulary",
        "finish_reason",
        "is_changed",
        "is_cut",
        "matched_stop",
        "reasoning_tokens",
        "tokens",
    )

    def __init__(
        self,
        index: int,
        request: Request,
        vocabulary: Any,
        limit: int | None,
        ceiling: int | None = None,
    ) -> None:
        """At `limit` tokens it ends. Above `ceiling`, not counting reasoning, it is cut: the engine
        should have ended it."""
        self._index = index
        self._is_only = request.n == 1
        self._vocabulary = vocabulary
        self._limit = limit
        self._ceiling = ceiling
        self._streamer: TextStreamer | None = None
        self._stops = StopStrings([*request.stop], request.include_stop) if request.stop else None
        self._includes = request.include_stop
        self._drops_cut = request.cut_character == "drop"
        self.is_changed = False
        self._released = ""
        """Text that an update of the stop strings released; it leaves with the next step."""
        self._kind: Kind = "text"
        self._surrogates: SurrogateJoiner | None = None
        """First halves of surrogate pairs; few engines ever send any."""
        self._native_reason: str | None = None
        self._ids: list[int] = []
        self._logprobs: list[Mapping[str, Any]] | None = [] if request.logprobs else None
        self.tokens = 0
        self.reasoning_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.matched_stop: str | None = None
        self.is_cut = False
        """It was ended here although the engine would have gone on."""

    def update(self, request: Request, *, is_stop: bool, is_limit: bool) -> None:
        """Sets stop strings or a limit for text that has not left yet. What this releases or ends
        follows with the next step: see `apply_update`."""
        self.is_changed = True
        if is_limit:
            self._limit, self._ceiling = request.max_tokens, None
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
    def is_complete(self) -> bool:
        """A stop string has matched or the limit is reached."""
        has_stopped = self._stops is not None and self._stops.matched is not None
        return has_stopped or (self._limit is not None and self.tokens >= self._limit)

    def add(self, part: ChoiceStep, out: list[Piece]) -> None:
        ids, finish = part.token_ids, part.finish_reason
        count = len(ids) if ids else part.tokens if part.data or part.text or part.call else 0
        if count and part.kind != "reasoning" and self._left_below_ceiling <= 0:
            self._cut_at_ceiling(out)
            return
        if count and self._limit is not None and self.tokens + count >= self._limit:
            over = self.tokens + count - self._limit
            if over or finish is None:
                finish, self.is_cut = "length", True
            if ids:
                count -= over
                ids = ids[:count]
        self.tokens += count
        if part.kind != self._kind:
            self._change_kind(part.kind, out)
        if part.kind == "reasoning":
            self.reasoning_tokens += count
        self._keep_tokens(part, ids)
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
            is_whole = not self.is_cut and finish in _OWN_ENDS
            self._finish(finish, text + self._tail(out, is_whole), part.matched_stop, out)
        elif text:
            has_more = self._ids or self._logprobs or self._kind != "text"
            out.append(self._delta(text) if has_more else self._text_piece(text))

    def _keep_tokens(self, part: ChoiceStep, ids: Sequence[int]) -> None:
        if ids:
            self._ids += ids
        if part.logprobs and self._logprobs is not None:
            self._logprobs += part.logprobs[: len(ids)] if ids else part.logprobs

    @property
    def _left_below_ceiling(self) -> int:
        """Tokens that are no reasoning: the limits of some upstreams leave that out."""
        if self._ceiling is None:
            return _UNLIMITED
        return self._ceiling - (self.tokens - self.reasoning_tokens)

    def _cut_at_ceiling(self, out: list[Piece]) -> None:
        self.is_cut = True
        self._release(out)
        self._finish("length", self._tail(out, is_whole=False), None, out)

    @property
    def plain_tokens_left(self) -> int:
        """Before so many more tokens, new text would leave as it is; 0 if it would not at all."""
        others = (self.finish_reason, self._stops, self._surrogates, self._streamer)
        is_plain = self._kind == "text" and not self._ids and not self.is_changed
        if not is_plain or any(other is not None for other in others):
            return 0
        left = _UNLIMITED if self._limit is None else self._limit - self.tokens
        return max(0, min(left, self._left_below_ceiling + 1))

    def plain_text(self, step: Step) -> str | None:
        """The text that the step adds to the only choice if it adds nothing else; else None, and
        the step's parts go to `add`. A short cut: most steps are of this kind."""
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
        if self._ceiling is not None and self._left_below_ceiling <= 0:
            return None
        text = part.text
        if not text:
            if not part.data:
                return None
            text = self._decode(part.data)
        elif not text.isascii() or self._surrogates is not None:
            text = self._whole(text)
        self.tokens += part.tokens
        return text

    def end(self, reason: FinishReason, out: list[Piece], *, is_own: bool = False) -> None:
        """Finishes the choice; text that is held back leaves, unless it is cancelled. `is_own`: the
        engine came to its own end."""
        if self.finish_reason is None:
            text = ""
            if reason != "cancelled":
                self._release(out)
                text = self._tail(out, is_own and reason in _OWN_ENDS)
            self._finish(reason, text, None, out)

    def apply_update(self, out: list[Piece]) -> None:
        """Emits the text that an update released, or the end that it caused."""
        self.is_changed = False
        self.is_cut = self.is_complete
        if self.is_cut:
            self.end("length", out)
        else:
            self._release(out)

    def _release(self, out: list[Piece]) -> None:
        text, self._released = self._released, ""
        self._add_text(text, out)

    def _add_text(self, text: str, out: list[Piece]) -> None:
        if text:
            out.append(self._text_piece(text))

    def _text_piece(self, text: str) -> Piece:
        return text if self._is_only else Delta(self._index, text)

    def _text(self, part: ChoiceStep, ids: Sequence[int]) -> str:
        text = part.text
        if not text:
            return self._decode(ids or part.data) if ids or part.data else ""
        return text if text.isascii() and self._surrogates is None else self._whole(text)

    def _whole(self, text: str, key: str | None = None) -> str:
        """Joins halves of surrogate pairs; a first half at the end of the text waits."""
        if self._surrogates is None:
            # Inline, because it runs for every token that is not ASCII.
            try:
                text.encode()
            except UnicodeEncodeError:
                self._surrogates = SurrogateJoiner()
            else:
                return text
        return self._surrogates.join((self._index, key or self._kind), text)

    def _whole_call(self, call: ToolCall) -> ToolCall:
        """The same for a tool call; its name and id come in one piece."""
        parts = (call.id or "", call.name or "", call.arguments)
        if self._surrogates is None and all(map(str.isascii, parts)):
            return call
        id, name = (None if part is None else encodable(part) for part in (call.id, call.name))
        return ToolCall(call.index, id, name, self._whole(call.arguments, str(call.index)))

    def _decode(self, piece: Any) -> str:
        if self._streamer is None:
            if self._vocabulary is None and not isinstance(piece, bytes):
                raise invalid_step("token ids but has no vocabulary")
            self._streamer = TextStreamer(self._vocabulary)
        return self._streamer.put(piece)

    def _change_kind(self, kind: Kind, out: list[Piece]) -> None:
        """Text and reasoning never mix: an unfinished character stays with its kind."""
        streamer, self._streamer = self._streamer, None
        if streamer is not None and (text := streamer.finish()):
            if self._kind == "text" and self._stops is not None:
                text = self._stops.put(text)
            if text:
                out.append(self._delta(text))
        self._kind = kind

    def _tail(self, out: list[Piece], is_whole: bool) -> str:
        """The text that is still held back; it may complete a stop string. An incomplete character
        is garbage if the engine ended the text itself; otherwise `is_whole` is False, and the end
        has cut it."""
        text = ""
        if is_whole or not self._drops_cut:
            text = self._streamer.finish() if self._streamer is not None else ""
            text += self._lone_halves(out)
        if self._stops is None or self._kind == "reasoning":
            return text
        text = self._stops.put(text) if text else ""
        return text if self._stops.matched is not None else text + self._stops.finish()

    def _lone_halves(self, out: list[Piece]) -> str:
        """U+FFFD for each half without its other half: returned if it belongs to the current kind;
        else it leaves at once."""
        text = ""
        for kind, lone in (
            self._surrogates.release(self._index) if self._surrogates is not None else ()
        ):
            if kind == self._kind:
                text += lone
            elif kind == "reasoning":
                out.append(Delta(self._index, lone, "reasoning"))
            elif kind == "text":
                self._add_text(self._stops.put(lone) if self._stops is not None else lone, out)
            else:
                call = ToolCall(int(kind), arguments=lone)
                out.append(Delta(self._index, "", "tool_call", call))
        return text

    def _finish(
        self, reason: FinishReason, text: str, matched: str | None, out: list[Piece]
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

    def _release_before_reasoning(self, out: list[Piece]) -> None:
        """Emits text that was held back when the reasoning began."""
        if self._stops is not None:
            self._add_text(self._stops.finish(), out)

    def _delta(self, text: str, call: Any = None) -> Delta:
        kind = self._kind if call is not None or self._kind != "tool_call" else "text"
        delta = Delta(self._index, text, kind, call)
        if self._ids:
            delta.token_ids, self._ids = self._ids, []
        if self._logprobs:
            delta.logprobs, self._logprobs = tuple(self._logprobs), []
        return delta


def invalid_step(content: str) -> Internal:
    return Internal(f"the engine sent {content}", code="engine.step-invalid")
