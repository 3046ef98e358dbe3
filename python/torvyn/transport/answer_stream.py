"""A streamed answer: deltas of a generation -> frames -> chunks on the wire.

The head leaves before the engine has made anything, the first text at once, then what is ready
together. A reader that is slow slows the engine; one that stops reading is cut. However it ends,
the last thing that is sent says how.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from torvyn.engine.answer.push import Sending, push
from torvyn.engine.delta import Delta
from torvyn.errors import TorvynError
from torvyn.protocol.frames import EndFrame, Finish
from torvyn.transport.access.token_pacing import paced
from torvyn.transport.call import Call
from torvyn.transport.frame_sender import Outlet
from torvyn.transport.rejection import client_error, is_retryable, log_failure
from torvyn.transport.request_body import ignored_header

if TYPE_CHECKING:
    from torvyn.transport.sessions.observer_tap import ObserverTap

_TEXT = (0, "text")


class Stream(Call):
    """`run` once: its reader drives the engine."""

    __slots__ = (
        "_bytes",
        "_encoder",
        "_finishes",
        "_frames",
        "_has_begun",
        "_tap",
        "_text_of",
        "_texts",
        "_tokens",
        "epoch",
        "outlet",
    )

    def __init__(self, *call: Any) -> None:
        super().__init__(*call)
        self.epoch = secrets.token_hex(4)
        """Of this generation: an event id of another one is recognised by it."""
        self._encoder = self.wire.encoder(
            self.request.dialect,
            id=self.id,
            flow=self.flow,
            created=self.created,
            epoch=self.epoch,
            choices=self.generation.request.n,
            include_usage=self.request.include_usage,
        )
        self.outlet = Outlet(self.wire, self.settings, self._encoder.heartbeat, self.leave)
        self._texts: list[str] = []
        self._text_of = _TEXT
        self._frames: list[bytes] = []
        self._tokens = self._bytes = 0
        self._has_begun = False
        self._finishes: dict[int, Finish] = {}
        self._tap: ObserverTap | None = None

    async def run(self) -> None:
        outlet = self.outlet
        await self.wire.begin(ignored_header(self.request.ignored))
        self.attend()
        outlet.open()
        try:
            await outlet.deliver(self._encoder.start() or self._encoder.heartbeat())
            await outlet.deliver(*await self._answered(), is_last=True)
        except asyncio.CancelledError:
            if not outlet.absorb():
                raise
        finally:
            outlet.close()
            self.dismiss()
            if self._tap is not None:
                self._tap.close(self._finished())

    @property
    def tap(self) -> ObserverTap:
        """For observers: what comes from now on."""
        if self._tap is None:
            from torvyn.transport.sessions.observer_tap import ObserverTap

            choices = self.generation.request.n
            self._tap = ObserverTap(self.id, self.flow, self.created, self.epoch, choices)
        return self._tap

    def leave(self) -> None:
        self.outlet.is_left = True
        super().leave()

    # What is said

    async def _answered(self) -> list[bytes]:
        """Sends everything but the end, which it gives."""
        error: TorvynError | None = None
        try:
            if self.pace is None:
                await self.generation.push(self)
            else:
                deltas = aiter(self.generation)
                await push(paced(deltas, self.pace, self.pause, self._made), self)
        except Exception as raised:
            error = client_error(raised)
            log_failure(error, raised, self.wire.request_id)
        self.failure = self.failure or error
        return [*self._gathered(), *self._end()]

    def _made(self) -> int:
        """Tokens, without those that another process had made before."""
        again: int = getattr(self.generation, "skipped_tokens", 0)
        return self.generation.usage.completion_tokens - again

    def say(self, text: str) -> bool:
        """Gathers text of the only choice; whether it is time to send."""
        if self._tap is not None or self._text_of != _TEXT:
            return self.take(Delta(0, text))
        self._texts.append(text)
        return self._is_due(1, len(text))

    def take(self, delta: Delta) -> bool:
        """Gathers it; whether it is time to send."""
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
        if not self._has_begun:
            self._has_begun = True
            return True
        settings = self.settings
        return self._tokens >= settings.chunk_tokens or self._bytes >= settings.chunk_bytes

    def _encode_text(self) -> None:
        if self._texts:
            index, kind = self._text_of
            self._frames.append(self._encoder.text("".join(self._texts), index, kind))
            self._texts.clear()

    def _gathered(self) -> list[bytes]:
        self._tokens = self._bytes = 0
        self._encode_text()
        frames, self._frames = self._frames, []
        return frames

    def flush(self) -> Sending | None:
        """Sends what was gathered; what is left to wait for, if anything."""
        texts = self._texts
        if len(texts) == 1 and not self._frames:
            self._tokens = self._bytes = 0
            return self.outlet.pour((self._encoder.text(texts.pop(), *self._text_of),))
        return self.outlet.pour(self._gathered()) if texts or self._frames else None

    def _finished(self) -> list[Finish]:
        return [
            self._finishes.get(index) or self.finish(index, reason, None)
            for index, reason in enumerate(self.generation.finish_reasons)
        ]

    def _end(self) -> list[bytes]:
        error, generation, encoder = self.failure, self.generation, self._encoder
        said: list[bytes] = []
        message = ""
        if error is not None:
            message = self.message_of(error)
            said.append(encoder.error(error.code, message, is_retryable(error)))
        finishes = tuple(self._finished())
        end = EndFrame(encoder.seq + 1, finishes, generation.usage, generation.timing)
        if self._tap is not None:
            self._tap.end(error, message, end)
        return [*said, encoder.encode(end)]
