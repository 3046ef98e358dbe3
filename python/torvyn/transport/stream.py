"""A streamed answer: deltas of a generation -> frames -> chunks on the wire.

The head leaves before the engine has made anything, the first text at once, then what is ready
together. A reader that is slow slows the engine; one that stops reading is cut. However it ends,
the last thing that is sent says how.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Generator
from typing import Any, Final

from torvyn.engine.delta import Delta
from torvyn.errors import TorvynError
from torvyn.protocol.encoder import Encoder, Framing
from torvyn.protocol.frames import End, Finish
from torvyn.transport.asked import ignored_header
from torvyn.transport.call import Call
from torvyn.transport.drive import drive
from torvyn.transport.refusal import is_retryable, told

logger = logging.getLogger("torvyn.transport")

HEADERS: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
KINDS: Final[dict[Framing, str]] = {
    "sse": "text/event-stream; charset=utf-8",
    "lines": "application/x-ndjson",
}
_BODY: Final = "http.response.body"


class Stream(Call):
    """`run` once."""

    __slots__ = (
        "_beating",
        "_bytes",
        "_encoder",
        "_finishes",
        "_frames",
        "_framing",
        "_has_begun",
        "_is_cut",
        "_is_over",
        "_last_s",
        "_loop",
        "_send",
        "_sending",
        "_since_s",
        "_task",
        "_text_of",
        "_texts",
        "_time",
        "_timer",
        "_tokens",
        "chunks",
    )

    def __init__(self, *call: Any, framing: Framing = "sse") -> None:
        super().__init__(*call)
        self._framing = framing
        self._send = self.exchange.send
        self._encoder = Encoder(
            self.asked.dialect,
            framing,
            id=self.id,
            flow=self.flow,
            created=self.created,
            epoch=secrets.token_hex(4),
            choices=self.generation.request.n,
            include_usage=self.asked.include_usage,
        )
        self._texts: list[str] = []
        self._text_of = (0, "text")
        self._frames: list[bytes] = []
        self._tokens = self._bytes = 0
        self._has_begun = False
        self._finishes: dict[int, Finish] = {}
        self._sending = 0
        self._since_s = self._last_s = 0.0
        self._is_cut = False
        self._is_over = False
        """The last chunk was sent; a heartbeat may have been about to."""
        self.chunks = 0
        """What was sent, the head and the last one included."""

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._time = self._loop.time
        headers = {"content-type": KINDS[self._framing], **HEADERS}
        await self.exchange.begin(200, {**headers, **ignored_header(self.asked.ignored)})
        self.attend()
        self._last_s = self._time()
        self._timer = self._loop.call_later(self._pause_s(), self._tick)
        try:
            await self._deliver(self._encoder.start() or self._encoder.heartbeat())
            await self._deliver(await self._answered(), is_last=True)
        except asyncio.CancelledError:
            if not self._is_cut or self._task is None:
                raise
            self._task.uncancel()
        finally:
            self._timer.cancel()
            self.dismiss()

    # What is said

    async def _answered(self) -> bytes:
        """Sends everything but the end, which it gives."""
        deltas = aiter(self.generation)
        error: TorvynError | None = None
        try:
            await drive(deltas, self._take, self._flush)
        except Exception as raised:
            error = told(raised)
            if error.__cause__ is raised:
                logger.exception("request %s failed", self.exchange.id, exc_info=raised)
        finally:
            await deltas.aclose()
        self.failure = self.failure or error
        return self._gathered() + self._end()

    def _take(self, delta: Delta) -> bool:
        """Gathers it; whether it is time to send."""
        if delta.finish_reason is not None:
            self._finishes[delta.index] = self.finish(
                delta.index, delta.finish_reason, delta.matched_stop
            )
        text = delta.delta_text
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
        self._tokens += len(delta.token_ids) or 1
        self._bytes += len(text)
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

    def _gathered(self) -> bytes:
        self._tokens = self._bytes = 0
        frames, texts = self._frames, self._texts
        if not frames and len(texts) == 1:
            return self._encoder.text(texts.pop(), *self._text_of)
        self._encode_text()
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        frames.clear()
        return data

    def _end(self) -> bytes:
        error, generation, encoder = self.failure, self.generation, self._encoder
        said = b""
        if error is not None:
            said = encoder.error(error.code, self.message_of(error), is_retryable(error))
        reasons = enumerate(generation.finish_reasons)
        finishes = [
            self._finishes.get(index) or self.finish(index, reason, None)
            for index, reason in reasons
        ]
        end = End(encoder.seq + 1, tuple(finishes), generation.usage, generation.timing)
        return said + encoder.encode(end)

    # How it leaves

    def _flush(self) -> Generator[Any, Any, None]:
        """`_deliver` of what was gathered, without a coroutine for each chunk."""
        if not self._texts and not self._frames:
            return
        data = self._gathered()
        if self.is_left:
            return
        self._departs()
        try:
            yield from self._send({"type": _BODY, "body": data, "more_body": True}).__await__()
        except OSError:
            self.leave()
        finally:
            self._sending -= 1

    async def _deliver(self, data: bytes, is_last: bool = False) -> None:
        if self.is_left or self._is_over or not data:
            return
        self._is_over = is_last
        self._departs()
        try:
            await self._send({"type": _BODY, "body": data, "more_body": not is_last})
        except OSError:
            self.leave()
        finally:
            self._sending -= 1

    def _departs(self) -> None:
        self.chunks += 1
        self._last_s = now_s = self._time()
        self._sending += 1
        if self._sending == 1:
            self._since_s = now_s

    def _pause_s(self) -> float:
        return min(self.settings.heartbeat_s, self.settings.write_timeout_s / 4)

    def _tick(self) -> None:
        """Now and then: is the reader still reading, and does it know that we are here?"""
        now_s = self._time()
        settings = self.settings
        pause_s = self._pause_s()
        if self._sending:
            if now_s - self._since_s >= settings.write_timeout_s:
                self._cut()
                return
        elif (due_s := self._last_s + settings.heartbeat_s - now_s) <= 0:
            self._beating = self._loop.create_task(self._deliver(self._encoder.heartbeat()))
        else:
            pause_s = min(pause_s, due_s)
        self._timer = self._loop.call_later(pause_s, self._tick)

    def _cut(self) -> None:
        """Nobody reads: the engine is let go, and what is on its way is forgotten."""
        self._is_cut = self.is_left = True
        logger.warning(
            "request %s: its client has read nothing for %g s",
            self.exchange.id,
            self.settings.write_timeout_s,
        )
        if self._task is not None:
            self._task.cancel()
