"""The connection to the broker. It is established again for ever, with delays that grow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from torvyn._io.backoff import Backoff
from torvyn.components.connection import Connection
from torvyn.components.packages import import_package, quiet_logger
from torvyn.components.restart import keep_task_running
from torvyn.components.retry import describe
from torvyn.concurrency.end_task import end_task, is_ending
from torvyn.jetstream.addresses import BrokerAddresses
from torvyn.jetstream.failures import BrokerUnavailable, unavailable_at_start
from torvyn.text.redaction import without_credentials

CONNECT_TIMEOUT_S: Final = 5
PING_INTERVAL_S: Final = 20
CLOSE_TIMEOUT_S: Final = 2.0
OPEN_TIMEOUT_S: Final = 10.0
FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 5.0

Setup = Callable[[Any], Awaitable[None]]


class BrokerConnection:
    """All methods are for one event loop. `setups` are called with each new connection, before
    anything else uses it."""

    def __init__(self, urls: str, component: str) -> None:
        self._nats = import_package("nats", component, "cluster")
        quiet_logger("nats")
        self._addresses = BrokerAddresses.parse(urls)
        self.address: Final = without_credentials(urls)
        self.connection: Final = Connection(component, self.address)
        self.setups: list[Setup] = []
        self.teardowns: list[Callable[[], None]] = []
        """Called when a connection has ended."""
        self.client: Any = None
        """The connected client, or None."""
        self._ready = asyncio.Event()
        self._closed = asyncio.Event()
        """Whether the present connection has ended."""
        self._backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S)
        self._reason = ""
        self._task: asyncio.Task[None] | None = None
        self.on_change: Callable[[], None] = lambda: None
        """Called when the connection was established."""

    def begin(self) -> None:
        """Connects, without waiting for it."""
        work = keep_task_running(self._run, self.connection.lost)
        self._task = asyncio.get_running_loop().create_task(work)

    async def open(self, timeout_s: float = OPEN_TIMEOUT_S) -> None:
        """Connects; raises `broker.away` if that takes too long."""
        self.begin()
        try:
            await asyncio.wait_for(self._ready.wait(), timeout_s)
        except TimeoutError:
            await self.close()
            reason = self.connection.status.reason or "it does not answer"
            raise unavailable_at_start(self.address, reason) from None

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)
        self.connection.close()

    def require(self) -> Any:
        """The connected client; raises if there is none now."""
        if self.client is None or not self.client.is_connected:
            reason = self.connection.status.reason or self._reason or "there is no connection"
            raise BrokerUnavailable(f"no connection to {self.address}: {reason}")
        return self.client

    async def connected(self) -> Any:
        """Waits for a connection and returns the client."""
        while self.client is None:
            await self._ready.wait()
        return self.client

    @property
    def is_cluster(self) -> bool:
        """Whether several servers were named."""
        return len(self._addresses.urls) > 1

    @property
    def max_payload(self) -> int:
        """The largest message, with its headers, that the server takes."""
        return int(self.require().max_payload)

    @property
    def version(self) -> tuple[int, int]:
        """The version of the server."""
        found = self.require().connected_server_version
        return int(found.major), int(found.minor)

    async def reconnect(self, reason: str) -> None:
        """Gives up a connection on which nothing is answered."""
        client, self._reason, closed = self.client, reason, self._closed
        if client is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), CLOSE_TIMEOUT_S)
            # A client whose `close` was interrupted says nothing.
            closed.set()

    async def _run(self) -> None:
        while True:
            reason = await self._session()
            if is_ending():
                return
            self.connection.lost(reason)
            await asyncio.sleep(self._backoff.next_delay_s())

    async def _session(self) -> str:
        """One connection, from its beginning to its end; returns why it has ended."""
        closed = self._closed = asyncio.Event()
        self._reason = ""
        client = None
        try:
            client = await self._connect(closed)
            if is_ending():
                return ""
            for setup in self.setups:
                await setup(client)
            self._established(client)
            await closed.wait()
        except (OSError, TimeoutError, ValueError, self._nats.errors.Error) as error:
            return self._reason or describe(error).removeprefix("nats: ")
        except BrokerUnavailable as error:
            return self._reason or error.message
        finally:
            self.client = None
            self._ready.clear()
            for teardown in list(self.teardowns):
                teardown()
            if client is not None:
                await _close(client)
        return self._reason or "the server closed the connection"

    def _established(self, client: Any) -> None:
        self.client = client
        self._backoff.reset()
        self.connection.connected()
        self._ready.set()
        self.on_change()

    async def _connect(self, closed: asyncio.Event) -> Any:
        async def on_closed() -> None:
            closed.set()

        return await self._nats.connect(
            list(self._addresses.urls),
            user=self._addresses.user,
            password=self._addresses.password,
            token=self._addresses.token,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_TIMEOUT_S,
            ping_interval=PING_INTERVAL_S,
            error_cb=self._on_error,
            closed_cb=on_closed,
        )

    async def _on_error(self, error: Exception) -> None:
        self._reason = describe(error).removeprefix("nats: ")


async def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.flush(), CLOSE_TIMEOUT_S)
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), CLOSE_TIMEOUT_S)
