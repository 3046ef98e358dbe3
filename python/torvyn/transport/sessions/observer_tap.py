"""Frames of an answer without a session, for observers. Costs nothing until one connects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torvyn.engine.delta import Delta
from torvyn.errors import TorvynError
from torvyn.protocol.encoder import Encoder
from torvyn.protocol.frames import EndFrame, Finish
from torvyn.transport.rejection import is_retryable
from torvyn.transport.sessions.frame_buffer import FrameBuffer
from torvyn.transport.settings import KiB

LIMIT_BYTES: Final = 64 * KiB


class ObserverTap:
    """Frames from now on, numbered from 1."""

    def __init__(self, id: str, flow: str, created: int, epoch: str, choices: int) -> None:
        self.epoch = epoch
        self.buffer = FrameBuffer(LIMIT_BYTES)
        # Whoever knows the id of a stream can stop it, which an observer may not.
        short_id = id[:8] + "..."
        self._encoder = Encoder(
            "torvyn",
            "json",
            id=short_id,
            flow=flow,
            created=created,
            epoch=epoch,
            choices=choices,
            include_usage=True,
        )
        self.buffer.add(self._encoder.start())

    def take(self, delta: Delta) -> None:
        if delta.text or delta.call is not None:
            frame = self._encoder.delta(
                delta.index, delta.kind, delta.text, delta.call, delta.logprobs or None
            )
            self.buffer.add(frame)

    def end(self, error: TorvynError | None, message: str, end: EndFrame) -> None:
        encoder = self._encoder
        if error is not None:
            self.buffer.add(encoder.error(error.code, message, is_retryable(error)))
        self.buffer.add(
            encoder.encode(EndFrame(encoder.seq + 1, end.finish, end.usage, end.timing))
        )
        self.buffer.end()

    def close(self, finishes: Sequence[Finish]) -> None:
        """Ends the frames, if `end` has not."""
        if not self.buffer.is_over:
            self.end(None, "", EndFrame(0, tuple(finishes)))
