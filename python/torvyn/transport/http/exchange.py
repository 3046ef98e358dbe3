"""One HTTP request and its response, whatever server below carries them.

It parses the body, sends whole responses, and has the id that responses and logs share.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl

from torvyn.engine.request import is_own_id, new_id
from torvyn.protocol import traceparent
from torvyn.transport.access.caller import ANYONE, Caller
from torvyn.transport.access.key_record import PREFIX
from torvyn.transport.http.body_limit import BodyBudget
from torvyn.transport.http.json_body import parse_object
from torvyn.transport.rejection import Rejection
from torvyn.transport.settings import ServerSettings

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.protocol.encoder import Encoder

ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""An id is a segment of a path, so it is never `.` or `..`."""
JSON: Final = "application/json"
CLOSE: Final = {"connection": "close"}


TextPoster: TypeAlias = Callable[[str, int, str], Awaitable[None] | None]
"""Text, choice and kind."""


class HttpExchange(ABC):
    __slots__ = (
        "caller",
        "cors_headers",
        "headers",
        "id",
        "method",
        "path",
        "peer",
        "query",
        "root",
        "status",
        "summary",
        "trace",
    )

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        peer: str | None,
        *,
        root: str = "",
        sample_rate: float = 0.0,
    ) -> None:
        self.method = method
        self.root = root
        """The path at which another program mounts the application."""
        self.path = path.removeprefix(root) or "/"
        self.headers = headers
        self.id = request_id(headers)
        """In the response and logs: what the client chose or a new one, until the request has an
        answer, whose id it then is."""
        self.query = dict(parse_qsl(query)) if query else {}
        self.trace = traceparent.begin(headers.get("traceparent"), sample_rate)
        self.caller = ANYONE
        self.cors_headers: Mapping[str, str] = {}
        """Of the response, for browsers."""
        self.peer = peer
        """The address of the client, if known."""
        self.status = 0
        """Of the response; 0 before there is one."""
        self.summary: Mapping[str, Any] = {}
        """Of the answer, for the request log."""

    def check(self) -> None:
        """Raises a rejection if the head of the request is ambiguous."""
        return

    def recognise(self, caller: Caller) -> None:
        """The request has that caller, whom the API key names if there is one."""
        self.caller = caller

    async def body(self, settings: ServerSettings, bodies: BodyBudget) -> dict[str, Any]:
        """The body, a JSON object. Raises a rejection."""
        return parse_object(await self.read_body(settings, bodies))

    @abstractmethod
    async def read_body(self, settings: ServerSettings, bodies: BodyBudget) -> bytes:
        """Raises a rejection, or `ClientDisconnected`."""

    def hold(self, status: int, headers: Mapping[str, str], *parts: bytes) -> None:
        """The head of a streamed response, and its first parts. They leave with what is posted
        next; until then, `answer` may replace them."""
        self.status = status
        self._hold(status, self._with_ids(headers), parts)

    @abstractmethod
    def _hold(self, status: int, headers: list[tuple[str, str]], parts: Sequence[bytes]) -> None:
        """The same, with all headers."""

    @property
    def has_begun(self) -> bool:
        """Whether the client may have some of a response."""
        return self.status != 0 and not self._is_held

    @property
    @abstractmethod
    def _is_held(self) -> bool:
        """Whether what `hold` was given has not left."""

    @abstractmethod
    async def send_whole(
        self, status: int, headers: Iterable[tuple[str, str]], data: bytes
    ) -> None:
        """Sends a whole response."""

    @abstractmethod
    def post(self, data: bytes, is_last: bool = False) -> Awaitable[None] | None:
        """Sends a part of a streamed response; returns what remains to wait for, if anything.
        Either raises `OSError` when the client has left."""

    def text_poster(self, encoder: Encoder) -> TextPoster:
        """A function that encodes new text and posts it."""
        return lambda text, index, kind: self.post(encoder.text(text, index, kind))

    def direct_text(self, encoder: Encoder, most_texts: int, most_bytes: int) -> DirectText | None:
        """The way of new text to the client in native code, where the server below has one. Texts
        are sent together up to those limits."""
        return None

    def wait_for_room(self) -> Awaitable[None] | None:
        """What remains to wait for after text that was sent in native code, if anything."""
        return None

    @property
    def idle_s(self) -> float | None:
        """Seconds since something was sent, where the server below knows."""
        return None

    def abort_after(self, seconds: float) -> None:
        """The response has ended: what the client has not read by then is dropped, where the server
        below would keep it."""
        return

    def when_left(self, act: Callable[[], None] | None) -> bool:
        """Calls it when the client has disconnected; False: only `until_left` tells."""
        return False

    @property
    def is_left(self) -> bool:
        """Whether the client has disconnected, where the server below knows at once."""
        return False

    @abstractmethod
    async def until_left(self) -> None:
        """Returns when the client has disconnected."""

    def when_half_closed(self, act: Callable[[], None] | None) -> None:
        """Calls it when the client sends no more, where the server below tells. Such a client may
        still read, or be gone: what is sent to it next shows."""
        return

    async def answer(
        self,
        body: bytes | str | Mapping[str, Any],
        status: int = 200,
        kind: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends a whole response."""
        if isinstance(body, Mapping):
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        data = body.encode(errors="replace") if isinstance(body, str) else body
        self.status = status
        about = {"content-type": kind, "content-length": str(len(data))}
        all_headers = {**about, "cache-control": "no-store", **(headers or {})}
        await self.send_whole(status, self._with_ids(all_headers), data)

    def _with_ids(self, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        ids = (("x-request-id", self.id), ("traceparent", self.trace.traceparent))
        return [*headers.items(), *self.cors_headers.items(), *ids]


def request_id(headers: Mapping[str, str]) -> str:
    """The id that the client chose, or a new one. Logs contain it, so it must not be an API key,
    and it cannot be the id of a stream that this or another server made."""
    id = headers.get("x-request-id", "")
    is_usable = ID.fullmatch(id) and PREFIX not in id and not is_own_id(id)
    return id if is_usable else new_id()


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete, or before its answer began. Raised
    as a new object each time: an exception keeps its frames, and with them the body."""


class UntilLeft:
    """Use in an `async with` statement: what waits inside is cancelled when the client leaves, and
    `ClientDisconnected` is raised instead.

    A client that only sends no more counts as one that has left: nothing can be sent to it yet that
    would show whether it still reads.
    """

    __slots__ = ("_cancelling", "_exchange", "_has_left", "_listener", "_start", "_task")

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange = exchange
        self._has_left = False
        self._task: asyncio.Task[Any] | None = None
        self._listener: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        if self._exchange.is_left:
            raise ClientDisconnected()
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        # Only if something waits: most requests do not.
        self._start = asyncio.get_running_loop().call_soon(self._watch)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._start.cancel()
        self._exchange.when_left(None)
        self._exchange.when_half_closed(None)
        if self._listener is not None:
            self._listener.cancel()
        task, self._task = self._task, None
        if self._has_left and task is not None:
            # Somebody else may have cancelled it as well.
            is_ours = task.uncancel() <= self._cancelling
            if is_ours and kind is asyncio.CancelledError:
                raise ClientDisconnected() from None

    def _watch(self) -> None:
        self._exchange.when_half_closed(self._leave)
        if not self._exchange.when_left(self._leave):
            self._listener = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        await self._exchange.until_left()
        self._leave()

    def _leave(self) -> None:
        if self._task is not None and not self._has_left:
            self._has_left = True
            self._task.cancel()


def host_ambiguous() -> Rejection:
    message = "the request names more than one host"
    hint = "send one `Host` header, and the same host in the target if that names one"
    return Rejection(400, "transport.host-ambiguous", message, hint=hint)


def body_malformed() -> Rejection:
    message = "the request body is not encoded as its headers say"
    return Rejection(400, "transport.body-malformed", message, headers=CLOSE)


def body_too_slow(settings: ServerSettings) -> Rejection:
    message = f"the request body was not received within {settings.body_timeout_s:g} s"
    return Rejection(408, "transport.body-slow", message, headers=CLOSE)


def too_many_bodies() -> Rejection:
    message = "the server received too many slow request bodies at once"
    return Rejection(408, "transport.body-slow", message, headers=CLOSE)


def body_too_large(limit_bytes: int) -> Rejection:
    return Rejection(
        413,
        "transport.body-too-large",
        f"the request body is larger than {limit_bytes} bytes",
        hint="`max_body` of `[serve]` is the limit",
        headers=CLOSE,
    )
