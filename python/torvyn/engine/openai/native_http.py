"""The native HTTP client on a running loop, which watches its one descriptor.

Connections are kept for a while after their last request, by origin. What cannot be sent or read is
an `HttpFailure`; time limits are those of the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import SplitResult

from torvyn import _native
from torvyn._io.event_loop import EarliestTimer
from torvyn.engine.openai.client import Direct, Part

if TYPE_CHECKING:
    from torvyn._native import WireReply

KEEP_ALIVE_S: Final = 15.0
_NAMES_S: Final = 10.0
"""How long the addresses of a name are remembered."""


class HttpFailure(OSError):
    """There is no response, or not all of it."""

    def __init__(
        self, kind: Literal["connect-timeout", "unreachable", "tls", "broken"], detail: str
    ) -> None:
        super().__init__(detail)
        self.kind = kind


class Target(NamedTuple):
    """Where requests go."""

    host: str
    port: int
    is_tls: bool
    address: str | None
    """The host, if that is an address and not a name."""

    @classmethod
    def of(cls, url: SplitResult) -> Target:
        is_tls, host, address = url.scheme == "https", url.hostname or "", None
        with contextlib.suppress(ValueError):
            address = str(ipaddress.ip_address(host))
        return cls(host, url.port or (443 if is_tls else 80), is_tls, address)


class NativeResponse:
    """The response to a request that has been sent. One task reads it."""

    __slots__ = (
        "_deadline_s",
        "_direct",
        "_future",
        "_has_head",
        "_http",
        "_since_s",
        "headers",
        "native",
        "status",
    )

    def __init__(self, native: WireReply, http: NativeHttp, direct: Direct | None) -> None:
        self.native = native
        self.status = 0
        self.headers: dict[str, str] = {}
        self._http = http
        self._future: asyncio.Future[None] | None = None
        self._since_s = self._deadline_s = 0.0
        self._direct = direct
        self._has_head = False

    async def read_head(self, deadline_s: float) -> None:
        """Returns when the head has arrived; on the direct path, when that is left. Raises
        `TimeoutError` at the deadline, a time of the loop, and `HttpFailure`."""
        native = self.native
        while native.status is None:
            if (failure := native.failure) is not None:
                raise HttpFailure(*failure)
            self._arm()
            if (waits_for := self._wait(deadline_s)) is not None:
                await waits_for
        self._has_head = True
        self.status, self.headers = native.status, native.headers()

    async def read(self, deadline_s: float) -> bytes:
        """What has arrived; nothing at the end. Raises `TimeoutError` at the deadline and
        `HttpFailure`."""
        self._direct = None
        data = await self.read_stream(deadline_s)
        assert isinstance(data, bytes), "no direct path is armed"
        return data

    async def read_stream(self, deadline_s: float) -> bytes | list[Part]:
        """The same, or the parts that the direct path has left."""
        native = self.native
        self._arm()
        while (data := native.take()) is None:
            if (waits_for := self._wait(deadline_s)) is not None:
                await waits_for
        if data == b"" and (failure := native.failure) is not None:
            raise HttpFailure(*failure)
        return data

    def close(self) -> None:
        """Closes the connection."""
        self.native.cancel()
        self._end()

    def release(self) -> None:
        """The response is over for its reader: keeps the connection if the body ends soon."""
        self.native.release()
        self._end()

    def _end(self) -> None:
        self._direct = None
        self._http.responses.discard(self)

    def _arm(self) -> None:
        """Text may take the direct path."""
        if self._direct is not None:
            self._direct.arm(self.native)

    def _wait(self, deadline_s: float) -> asyncio.Future[None] | None:
        """What is done when there is more; None: there is something already."""
        native = self.native
        loop = self._http.loop
        future = loop.create_future()
        if not native.wait(future, self._has_head):
            return None
        self._future, self._since_s, self._deadline_s = future, loop.time(), deadline_s
        self._arm_timer(self._since_s)
        return future

    def _arm_timer(self, now_s: float) -> None:
        due_s = self._deadline_s
        if self._direct is not None:
            # The first text on the direct path may make the deadline an earlier one.
            due_s = min(due_s, now_s + self._direct.idle_s)
        self._http.deadlines.arm(due_s)

    def look(self, now_s: float) -> None:
        """The deadline of some wait has passed; that of the latest may have been moved."""
        future = self._future
        if future is None or future.done():
            return
        idle_s = self.native.direct_idle_s
        if self._direct is not None and idle_s is not None and now_s - idle_s >= self._since_s:
            self._deadline_s = now_s - idle_s + self._direct.idle_s
        if now_s < self._deadline_s:
            self._arm_timer(now_s)
        elif not self._has_head and self.native.status is not None:
            future.set_result(None)  # The head is there: the next wait ends at once.
        else:
            future.set_exception(TimeoutError())


class NativeHttp:
    """A client. Made by `open_native_http`, for the loop that runs it.

    The look-up of an address, the connection and its TLS may take `connect_timeout_s` each.
    """

    def __init__(self, connect_timeout_s: float, roots: bytes | None) -> None:
        self._connect_s = connect_timeout_s
        self._wire = _native.WireClient(
            connect_timeout_s=connect_timeout_s, keep_alive_s=KEEP_ALIVE_S, roots=roots
        )
        self.loop = asyncio.get_running_loop()
        self.responses: set[NativeResponse] = set()
        """Those that are open."""
        self.deadlines = EarliestTimer(self.loop, self._look)
        """Of all of them: a timer of its own would cost each response as much as its parsing."""
        self._timer = EarliestTimer(self.loop, self._turn)
        self._addresses: dict[tuple[str, int], tuple[float, list[str]]] = {}
        self.loop.add_reader(self._wire.fileno(), self._turn)

    @property
    def draining(self) -> int:
        """Connections that wait for the end of a response that was read."""
        return self._wire.draining

    async def post(
        self,
        target: Target,
        path: str,
        headers: list[tuple[str, str]],
        body: bytes,
        deadline_s: float,
        direct: Direct | None = None,
    ) -> NativeResponse:
        """Sends a request; returns when the head of the response is there. Raises `TimeoutError` at
        the deadline and `HttpFailure`."""
        host, port, is_tls, address = target
        addresses = await self._resolve(host, port, deadline_s) if address is None else [address]
        reply = self._wire.post(host, port, is_tls, addresses, path, headers, body)
        response = NativeResponse(reply, self, direct)
        self.responses.add(response)
        try:
            await response.read_head(deadline_s)
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        self.loop.remove_reader(self._wire.fileno())
        self._timer.close()
        self.deadlines.close()
        self._wire.close()

    def _look(self) -> None:
        now_s = self.loop.time()
        for response in self.responses:
            response.look(now_s)

    def _turn(self) -> None:
        futures, due_s = self._wire.turn()
        for future in futures:
            if not future.done():
                future.set_result(None)
        if due_s is not None:
            self._timer.arm(self.loop.time() + due_s)

    async def _resolve(self, host: str, port: int, deadline_s: float) -> list[str]:
        known = self._addresses.get((host, port))
        if known is not None and self.loop.time() < known[0] + _NAMES_S:
            return known[1]
        limit_s = self.loop.time() + self._connect_s
        try:
            async with asyncio.timeout_at(min(deadline_s, limit_s)):
                found = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:
            if deadline_s <= limit_s:
                raise
            raise HttpFailure("connect-timeout", f"{host}: its address was not found") from None
        except OSError as error:
            raise HttpFailure("unreachable", f"{host}: {error}") from error
        addresses = [str(address[0]) for *_, address in found]
        self._addresses[host, port] = (self.loop.time(), addresses)
        return addresses


async def open_native_http(
    connect_timeout_s: float, *, is_tls: bool
) -> AsyncGenerator[NativeHttp, None]:
    """Yields a client for the running loop, and closes it with the generator."""
    client = NativeHttp(connect_timeout_s, system_roots() if is_tls else None)
    try:
        yield client
    finally:
        client.close()


def system_roots() -> bytes:
    """The certificates of authorities that Python's `ssl` module trusts, as PEM."""
    return b"\n".join(_root_files())


def _root_files() -> Iterator[bytes]:
    paths = ssl.get_default_verify_paths()
    if paths.cafile is not None:
        yield Path(paths.cafile).read_bytes()
    if paths.capath is not None:
        for file in Path(paths.capath).iterdir():
            with contextlib.suppress(OSError):
                yield file.read_bytes()
