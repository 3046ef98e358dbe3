"""A streamed answer: pieces -> frames -> chunks on the wire.

Nothing is sent before the engine has something, or `first_byte_wait` has passed: an answer that
fails until then raises its error, which becomes a status. The first text leaves at once, and then
whatever is ready together. A slow client slows the engine; a client that stops reading is cut off.
The last frame says how the answer ended.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from torvyn.engine.answer.push import push_buffered
from torvyn.engine.delta import Delta, Piece
from torvyn.errors import TorvynError
from torvyn.protocol.encoder import Encoder
from torvyn.protocol.frames import EndFrame, Finish
from torvyn.transport.access.paced_answer import PacedAnswer
from torvyn.transport.call import Call
from torvyn.transport.frame_sender import FrameSender
from torvyn.transport.rejection import client_error, is_retryable, log_failure, openai_code
from torvyn.transport.request_body import ignored_header

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.transport.sessions.observer_tap import ObserverTap

_TEXT = (0, "text")


class AnswerStream(Call):
    """Call `run` once. The task that runs it drives the engine."""

    __slots__ = (
        "_bytes",
        "_encoder",
        "_finishes",
        "_frames",
        "_has_sent_text",
        "_is_open",
        "_post_text",
        "_tap",
        "_text_of",
        "_texts",
        "_tokens",
        "epoch",
        "sender",
    )

    def __init__(self, *call: Any) -> None:
        super().__init__(*call)
        self.epoch = secrets.token_hex(4)
        """Part of every event id, so that the ids of another generation are recognised."""
        self._encoder = self.wire.encoder(
            self.request.dialect,
            id=self.id,
            flow=self.flow,
            created=self.created,
            epoch=self.epoch,
            choices=self.answer.request.n,
            include_usage=self.request.include_usage,
        )
        self.sender = FrameSender(self.wire, self.settings, self._encoder.heartbeat, self.leave)
        self._post_text = self.wire.text_poster(self._encoder)
        self._texts: list[str] = []
        self._text_of = _TEXT
        self._frames: list[bytes] = []
        self._tokens = self._bytes = 0
        self._has_sent_text = False
        self._finishes: dict[int, Finish] = {}
        self._tap: ObserverTap | None = None
        self._is_open = False
        """Whether the wire has the head and the start frame."""

    async def run(self) -> None:
        """Raises the failure of an answer of which nothing was sent."""
        sender = self.sender
        try:
            frames = await self._push()
            if self.failure is not None and not self.wire.has_begun and not self.is_left:
                raise self.failure
            await sender.deliver(*frames, is_last=True)
        except asyncio.CancelledError:
            if not sender.absorb_cut():
                raise
        finally:
            sender.close()
            self.unwatch()
            if self._tap is not None:
                self._tap.close(self._finish_list())

    @property
    def tap(self) -> ObserverTap:
        """The frames from now on, for observers."""
        if self._tap is None:
            from torvyn.transport.sessions.observer_tap import ObserverTap

            if self.sender.direct is not None:
                self.sender.direct.close()
            choices = self.answer.request.n
            self._tap = ObserverTap(self.id, self.flow, self.created, self.epoch, choices)
        return self._tap

    def direct_text(self) -> DirectText | None:
        """Where new text may go in native code, unless an observer reads it as well, or something
        has to be sent before."""
        if self._tap is not None or self.is_ending or self._texts or self._frames:
            return None
        self._open()
        if self.sender.direct is None:
            limits = (self.settings.chunk_tokens, self.settings.chunk_bytes)
            self.sender.direct = self.wire.direct_text(self._encoder, *limits)
        return self.sender.direct

    def leave(self) -> None:
        self.sender.is_left = True
        super().leave()

    def _open(self) -> None:
        """Makes the head and the start frame ready to leave, once. Not before the engine was asked:
        an upstream works on the answer meanwhile."""
        if not self._is_open:
            self._is_open = True
            self.wire.hold(ignored_header(self.request.ignored), self._encoder.start())
            self.watch()
            self.sender.open()

    async def _push(self) -> list[bytes]:
        """Sends everything but the last frames, which it returns."""
        error: TorvynError | None = None
        try:
            answer = self.answer
            if self.pace is not None:
                answer = PacedAnswer(answer, self.pace, self.pause)
            await push_buffered(answer, self)
        except Exception as raised:
            error = client_error(raised)
            log_failure(error, raised, self.wire.request_id)
        self.failure = self.failure or error
        self._open()
        return [*self._take_frames(), *self._end()]

    def add(self, piece: Piece) -> bool:
        """Buffers a piece; True when it is time to flush."""
        if isinstance(piece, str):
            if self._tap is None and self._text_of == _TEXT:
                self._texts.append(piece)
                return self._is_due(1, len(piece))
            piece = Delta(0, piece)
        return self._add_delta(piece)

    def _add_delta(self, delta: Delta) -> bool:
        if self._tap is not None:
            self._tap.take(delta)
        if delta.finish_reason is not None:
            self._finishes[delta.index] = self.finish(
                delta.index, delta.finish_reason, delta.matched_stop
            )
        text = delta.text
        if delta.call is not None or delta.logprobs is not None:
            self._encode_text()
            frame = self._encoder.delta(
                delta.index, delta.kind, text, delta.call, delta.logprobs or None
            )
            self._frames.append(frame)
        elif text:
            if self._text_of != (delta.index, delta.kind):
                self._encode_text()
                self._text_of = (delta.index, delta.kind)
            self._texts.append(text)
        else:
            return False
        return self._is_due(len(delta.token_ids) or 1, len(text))

    def _is_due(self, tokens: int, characters: int) -> bool:
        self._tokens += tokens
        self._bytes += characters
        if not self._has_sent_text:
            self._has_sent_text = True
            return True
        settings = self.settings
        return self._tokens >= settings.chunk_tokens or self._bytes >= settings.chunk_bytes

    def _encode_text(self) -> None:
        if self._texts:
            index, kind = self._text_of
            self._frames.append(self._encoder.text("".join(self._texts), index, kind))
            self._texts.clear()

    def _take_frames(self) -> list[bytes]:
        self._tokens = self._bytes = 0
        self._encode_text()
        frames, self._frames = self._frames, []
        return frames

    def flush(self) -> Awaitable[None] | None:
        """Sends what is buffered; returns what remains to wait for, if anything."""
        self._open()
        texts = self._texts
        if texts and not self._frames:
            self._tokens = self._bytes = 0
            text = texts[0] if len(texts) == 1 else "".join(texts)
            texts.clear()
            return self.sender.send(self._post_text, text, *self._text_of)
        if not texts and not self._frames:
            direct = self.sender.direct
            if direct is None or direct.flush():
                return None
            rest = self.wire.wait_for_room()
            return None if rest is None else self.sender.wait_for(rest)
        return self.sender.send(self.wire.post, self._take_frames())

    def _finish_list(self) -> list[Finish]:
        return [
            self._finishes.get(index) or self.finish(index, reason, None)
            for index, reason in enumerate(self.answer.finish_reasons)
        ]

    def _end(self) -> list[bytes]:
        error, answer, encoder = self.failure, self.answer, self._encoder
        frames: list[bytes] = []
        message = ""
        if error is not None:
            message, code = self.message_of(error), error.code
            if isinstance(encoder, Encoder) and self.request.dialect != "torvyn":
                frames.append(encoder.encode_usage(answer.usage))
                code = openai_code(error)
            frames.append(encoder.error(code, message, is_retryable(error)))
        finishes = tuple(self._finish_list())
        end = EndFrame(encoder.seq + 1, finishes, answer.usage, answer.timing)
        if self._tap is not None:
            self._tap.end(error, message, end)
        return [*frames, encoder.encode(end)]
