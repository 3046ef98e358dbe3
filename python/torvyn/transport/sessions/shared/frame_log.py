"""The frames of a session as messages of one subject.

A message has the frames that were ready together. It is stored only behind the message that its
writer has seen last, so a server that has lost the session can add nothing to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from torvyn._io.jetstream import Entry, Revisions, Streams
from torvyn._io.nats import BrokerConnection, Publisher
from torvyn.transport.sessions.frame_buffer import FrameBuffer
from torvyn.transport.sessions.shared.address import StoreAddress
from torvyn.transport.sessions.shared.patience import append_once, insistently

_IS_OVER: Final = 1


@dataclass(frozen=True, slots=True)
class FrameMessage:
    generation: int
    """Of the server that wrote it; see `SessionRecord`."""
    first: int
    """The number of its first frame."""
    frames: tuple[bytes, ...]
    is_over: bool = False

    def to_bytes(self) -> bytes:
        head = b"%d %d %d\n" % (self.generation, self.first, _IS_OVER if self.is_over else 0)
        return head + b"\n".join(self.frames)

    @classmethod
    def parse(cls, data: bytes) -> FrameMessage:
        head, _, rest = data.partition(b"\n")
        generation, first, flags = map(int, head.split(b" "))
        frames = tuple(rest.split(b"\n")) if rest else ()
        return cls(generation, first, frames, bool(flags & _IS_OVER))


class FrameLog:
    """The messages of all sessions. All methods raise `BrokerUnavailable` or `Refused`."""

    def __init__(
        self, broker: BrokerConnection, publisher: Publisher, address: StoreAddress
    ) -> None:
        self._broker = broker
        self._messages = Revisions(broker, publisher, address.frames_stream)
        self._streams = Streams(broker)
        self._address = address

    @property
    def stream(self) -> str:
        return self._messages.stream

    def subject(self, id: str) -> str:
        return self._address.frames_subject(id)

    async def append(self, id: str, data: bytes, last: int) -> int:
        """Adds a message behind the one with that number, once; returns its own. Raises `Conflict`
        if another message is there already."""
        adding = partial(append_once, self._messages, self.subject(id), data, last)
        return await insistently(self._broker, adding)

    async def tail(self, id: str) -> Entry | None:
        """The last message of the session, and its number."""
        subject = self.subject(id)
        return await insistently(self._broker, lambda: self._messages.last(subject))

    async def forget_before(self, id: str, number: int) -> None:
        """Deletes the messages before that one."""
        await self._streams.purge(self.stream, below=number, subject=self.subject(id))

    async def delete(self, id: str) -> None:
        await self._streams.purge(self.stream, subject=self.subject(id))

    async def ids(self) -> list[str]:
        """The sessions that have messages."""
        subjects = await self._messages.subjects(self.subject("*"))
        return [subject.rpartition(".")[2] for subject in subjects]


def parts_of(frames: Sequence[bytes], limit_bytes: int) -> list[list[bytes]]:
    """The frames in groups that fit into a message each."""
    parts: list[list[bytes]] = []
    size = limit_bytes
    for frame in frames:
        if size + len(frame) + 1 > limit_bytes or not parts:
            parts.append([])
            size = 0
        parts[-1].append(frame)
        size += len(frame) + 1
    return parts


def new_frames(buffer: FrameBuffer, message: FrameMessage) -> list[bytes] | None:
    """The frames of a message that the buffer does not have; None if others before them are
    missing."""
    expected = buffer.next
    new: list[bytes] = []
    for number, frame in enumerate(message.frames, message.first):
        if number > expected:
            return None
        if number == expected:
            new.append(frame)
            expected = number + 1 if number else buffer.first
    return new
