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
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import SplitResult

from torvyn._native import WireClient
from torvyn.concurrency.earliest_timer import EarliestTimer
from torvyn.engine.openai.client import Part

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


class NativeResponse:
    """A response whose head has arrived. One task reads it."""

    __slots__ = (
        "_arm",
        "_deadline_s",
        "_future",
        "_idle_s",
        "_loop",
        "_timer",
        "headers",
        "native",
        "status",
    )

    def __init__(self, native: WireReply) -> None:
        self.native = native
        self.status = native.status or 0
        self.headers = native.headers()
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self._deadline_s = self._idle_s = 0.0
        self._timer = EarliestTimer(self._loop, self._look)
        self._arm: Callable[[WireReply], None] | None = None

    def take_direct(self, arm: Callable[[WireReply], None], idle_s: float) -> None:
        """Calls `arm` before each wait. Text on the direct path moves the deadline by `idle_s`."""
        self._arm, self._idle_s = arm, idle_s

    async def read(self, deadline_s: float) -> bytes:
        """What has arrived; nothing at the end. Raises `TimeoutError` at the deadline, a time of
        the loop, and `HttpFailure`."""
        self._arm = None
        data = await self.read_stream(deadline_s)
        assert isinstance(data, bytes), "no direct path is armed"
        return data

    async def read_stream(self, deadline_s: float) -> bytes | list[Part]:
        """The same, or the parts that the direct path has left."""
        native = self.native
        while (data := native.take()) is None:
            if self._arm is not None:
                self._arm(native)
            future = self._loop.create_future()
            if native.wait(future, True):
                self._future, self._deadline_s = future, deadline_s
                self._timer.arm(deadline_s)
                await future
        if data == b"" and (failure := native.failure) is not None:
            raise HttpFailure(*failure)
        return data

    def close(self) -> None:
        """Closes the connection."""
        self.native.cancel()
        self._arm = None
        self._timer.close()

    def release(self) -> None:
        """The response is over for its reader: keeps the connection if the body ends soon."""
        self.native.release()
        self._arm = None
        self._timer.close()

    def _look(self) -> None:
        """The deadline of some read has passed; that of the latest may have been moved."""
        future, now_s = self._future, self._loop.time()
        if future is None or future.done():
            return
        if (idle_s := self.native.direct_idle_s) is not None:
            self._deadline_s = max(self._deadline_s, now_s - idle_s + self._idle_s)
        if now_s < self._deadline_s:
            self._timer.arm(self._deadline_s)
        else:
            future.set_exception(TimeoutError())


class NativeHttp:
    """A client. Made by `open_native_http`, for the loop that runs it."""

    def __init__(self, connect_timeout_s: float, roots: bytes | None) -> None:
        self._wire = WireClient(
            connect_timeout_s=connect_timeout_s, keep_alive_s=KEEP_ALIVE_S, roots=roots
        )
        self._loop = asyncio.get_running_loop()
        self._timer = EarliestTimer(self._loop, self._turn)
        self._addresses: dict[tuple[str, int], tuple[float, list[str]]] = {}
        self._loop.add_reader(self._wire.fileno(), self._turn)

    @property
    def draining(self) -> int:
        """Connections that wait for the end of a response that was read."""
        return self._wire.draining

    async def post(
        self, url: SplitResult, headers: Mapping[str, str], body: bytes
    ) -> NativeResponse:
        """Sends a request; returns when the head of the response is there. Raises `HttpFailure`."""
        is_tls, host = url.scheme == "https", url.hostname or ""
        port = url.port or (443 if is_tls else 80)
        addresses = await self._resolve(host, port)
        pairs = [("host", url.netloc), *headers.items()]
        reply = self._wire.post(host, port, is_tls, addresses, url.path, pairs, body)
        try:
            await self._head(reply)
        except BaseException:
            reply.cancel()
            raise
        return NativeResponse(reply)

    async def _head(self, reply: WireReply) -> None:
        while reply.status is None:
            if (failure := reply.failure) is not None:
                raise HttpFailure(*failure)
            future = self._loop.create_future()
            if reply.wait(future, False):
                await future

    def close(self) -> None:
        self._loop.remove_reader(self._wire.fileno())
        self._timer.close()
        self._wire.close()

    def _turn(self) -> None:
        futures, due_s = self._wire.turn()
        for future in futures:
            if not future.done():
                future.set_result(None)
        if due_s is not None:
            self._timer.arm(self._loop.time() + due_s)

    async def _resolve(self, host: str, port: int) -> list[str]:
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(host))]
        known = self._addresses.get((host, port))
        if known is not None and self._loop.time() < known[0] + _NAMES_S:
            return known[1]
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise HttpFailure("unreachable", f"{host}: {error}") from error
        addresses = [str(address[0]) for *_, address in found]
        self._addresses[host, port] = (self._loop.time(), addresses)
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
