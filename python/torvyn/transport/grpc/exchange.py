"""What carries one gRPC call: its metadata, its messages, and the status that ends it.

A call is over for its server when the client cancels it, when its deadline passes or when the
server cuts it; whatever waits then stops waiting.
"""

from __future__ import annotations

import asyncio
import re
import string
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from torvyn.errors import DeadlineExceeded, TorvynError
from torvyn.transport.http.exchange import (
    TextPoster,
    body_malformed,
    body_too_large,
    body_too_slow,
)
from torvyn.transport.http.native_exchange import NativeExchange
from torvyn.transport.rejection import Rejection
from torvyn.transport.request_body import invalid

if TYPE_CHECKING:
    from torvyn._native import MessageEncoder, WireExchange
    from torvyn.transport.settings import ServerSettings
    from torvyn.transport.status_table import Code

_HEAD: Final = {"content-type": "application/grpc+proto", "grpc-accept-encoding": "identity"}
_PLAIN: Final = string.punctuation.replace("%", "") + " "
"""What `grpc-message` may contain as it is, besides letters and digits."""
_TIMEOUT: Final = re.compile("([0-9]{1,8})([HMSmun])")
_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


class GrpcExchange(NativeExchange):
    __slots__ = (
        "_deadline",
        "_on_over",
        "_settings",
        "cut_reason",
        "has_last_frame",
        "is_watched",
    )

    def __init__(
        self, native: WireExchange, settings: ServerSettings, sample_rate: float = 0.0
    ) -> None:
        super().__init__(native, sample_rate)
        self._settings = settings
        self._deadline: asyncio.TimerHandle | None = None
        self._on_over: Callable[[], None] | None = None
        self.cut_reason: TorvynError | None = None
        """Why the server ended the call, if it did."""
        self.has_last_frame = False
        """The last frame was sent or is being sent."""
        self.is_watched = False
        """Whether the call itself notices when it is over; if not, its task is cancelled."""

    def check(self) -> None:
        """Starts the deadline. Raises a rejection if the metadata is invalid."""
        encoding = self.headers.get("grpc-encoding", "identity")
        if encoding != "identity":
            raise encoding_refused(encoding)
        if (timeout := self.headers.get("grpc-timeout")) is None:
            return
        if (found := _TIMEOUT.fullmatch(timeout)) is None:
            raise invalid("`grpc-timeout` must be a number of up to 8 digits and a unit")
        timeout_s = int(found[1]) * _UNITS_S[found[2]]
        self._deadline = self._loop.call_later(timeout_s, self.cut, deadline_passed())

    # The client's messages

    async def read(self) -> bytes | None:
        """The next message; None: the client sends no more. Raises a rejection."""
        message = await self.receive()
        if isinstance(message, bytes):
            return message
        end = self.messages_end
        if end == "too-large":
            raise body_too_large(self._settings.max_body_bytes)
        if end == "slow":
            raise body_too_slow(self._settings)
        if end == "malformed":
            raise body_malformed()
        return None

    async def read_one(self) -> bytes:
        """The only message of a call."""
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                message = await self.read()
        except TimeoutError:
            raise body_too_slow(self._settings) from None
        if message is None:
            raise body_malformed()
        return message

    # The answer

    def hold_call(self, *messages: bytes) -> None:
        """`hold` of a call."""
        self.hold(200, _HEAD, *messages)

    def begin_call(self) -> None:
        """Sends the head."""
        self.hold_call()
        self.release_soon()

    def post_messages(self, messages: list[bytes]) -> Awaitable[None] | None:
        """Sends them; returns what remains to wait for, if anything. Either raises `OSError` when
        the call is over."""
        if self.is_over:
            raise ConnectionResetError("the call is over")
        has_room = True
        for message in messages:
            has_room = self._native.append(message)
        return None if has_room else self._wait_for_room()

    def message_text_poster(self, encoder: MessageEncoder) -> TextPoster:
        """A function that encodes new text and posts it."""
        append = self._native.append_text_message

        def post(text: str, index: int, kind: str) -> Awaitable[None] | None:
            return None if append(encoder, text, index, kind) else self._wait_for_room()

        return post

    def end_call(self, code: Code, message: str, metadata: Iterable[tuple[str, str]]) -> None:
        """Sends the status. What the client does not read within the write timeout is dropped."""
        status = [("grpc-status", str(int(code))), *metadata]
        if message:
            status.append(("grpc-message", quote(message, safe=_PLAIN)))
        if self.has_begun:
            self._native.finish([*status, ("x-request-id", self.id)])
        else:
            self._native.respond(200, [*self._with_ids(_HEAD), *status], b"")
        self._native.abort_after(self._settings.write_timeout_s)

    # The end

    @property
    def is_over(self) -> bool:
        return self.cut_reason is not None or self._native.is_left

    @property
    def is_stuck(self) -> bool:
        """Whether the client has not read what was sent."""
        return bool(self._rooms)

    def when_over(self, act: Callable[[], None] | None) -> None:
        self._on_over = act
        if self.is_over and act is not None:
            act()

    def cut(self, reason: TorvynError) -> None:
        """Ends the call for that reason, unless its answer was sent and only the status follows."""
        is_answered = self.has_last_frame and not self.is_stuck
        if not self.is_over and not is_answered:
            self.cut_reason = reason
            self.leave()

    def leave(self) -> None:
        super().leave()
        if self._on_over is not None:
            self._on_over()

    @property
    def is_left(self) -> bool:
        return self.is_over

    def end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._on_over = None
        super().end()


def deadline_passed() -> DeadlineExceeded:
    message = "the deadline of the call has passed"
    return DeadlineExceeded(message, code="transport.deadline")


def encoding_refused(encoding: str) -> Rejection:
    message = f"the messages are compressed with {encoding[:32]!r}, which this server does not read"
    hint = "send messages without compression"
    return Rejection(501, "transport.encoding-refused", message, hint=hint)
