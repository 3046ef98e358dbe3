"""The connection to the broker. It is established again for ever, with delays that grow."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from torvyn._io.backoff import Backoff
from torvyn._io.broker_login import NO_LOGIN, BrokerLogin
from torvyn._io.event_loop import end_task, is_ending
from torvyn._io.packages import import_package, quiet_logger
from torvyn._io.safe_text import without_credentials
from torvyn.components.connection import Connection
from torvyn.components.restart import keep_task_running
from torvyn.errors import FlowError, os_reason
from torvyn.jetstream.addresses import BrokerAddresses
from torvyn.jetstream.failures import (
    BrokerDenied,
    BrokerUnavailable,
    Denial,
    unavailable_at_start,
)
from torvyn.jetstream.nkeys import read_creds, sign

logger = logging.getLogger("torvyn.jetstream")

CLOSE_TIMEOUT_S: Final = 2.0
OPEN_TIMEOUT_S: Final = 10.0
FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 5.0

Setup = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may be silent before another one is tried. Where there is only one, nothing
    is gained by haste. Native code has the same figures."""

    connect_s: int
    ping_s: float
    """The connection is lost when three of them pass without a word."""
    heartbeat_s: float
    """How often a consumer says that it is there; one that misses three is made anew."""
    answer_s: float
    """How long an answer may take before the connection counts as lost."""


ALONE: Final = Patience(connect_s=5, ping_s=20, heartbeat_s=5, answer_s=5)
CLUSTER: Final = Patience(connect_s=2, ping_s=0.4, heartbeat_s=0.4, answer_s=2)


class BrokerConnection:
    """All methods are for one event loop. `setups` are called with each new connection, before
    anything else uses it."""

    def __init__(self, urls: str, component: str, login: BrokerLogin = NO_LOGIN) -> None:
        self._nats = import_package("nats", f"`{component}`", "cluster")
        quiet_logger("nats")
        self._addresses = BrokerAddresses.parse(urls, login)
        self._servers = list(self._addresses.urls)
        """Those that were named, and those that they have named; the next one to try is first."""
        self.patience: Final = CLUSTER if len(self._servers) > 1 else ALONE
        self.address: Final = without_credentials(urls)
        self.connection: Final = Connection(component, self.address)
        self.setups: list[Setup] = []
        self.teardowns: list[Callable[[], None]] = []
        """Called when a connection has ended."""
        self.denial: BrokerDenied | None = None
        """The first right that was missing."""
        self.on_denial: set[Callable[[Denial], Denial | None]] = set()
        """Called when a right is missing; whoever needs it returns it as it was written."""
        self.client: Any = None
        """The connected client, or None."""
        self._ready = asyncio.Event()
        self._closed = asyncio.Event()
        """Whether the present connection has ended."""
        self._backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S)
        self._failed = 0
        """How many tries in a row have failed."""
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
            self._failed += 1
            # The servers of a cluster are tried one after the other, and then again after a pause.
            if self._failed % len(self._servers) == 0:
                await asyncio.sleep(self._backoff.next_delay_s())
            else:
                await asyncio.sleep(FIRST_DELAY_S)

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
        except FlowError as error:
            # Its settings cannot be used; a file may be there again.
            return self._reason or error.message
        except (OSError, TimeoutError, ValueError, self._nats.errors.Error) as error:
            return self._reason or os_reason(error).removeprefix("nats: ")
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
        self._failed = 0
        self._backoff.reset()
        self.connection.connected()
        self._ready.set()
        self.on_change()

    async def _connect(self, closed: asyncio.Event) -> Any:
        async def on_closed() -> None:
            closed.set()

        # One at a time: a server that is frozen accepts connections, and must not be the next one.
        server = self._servers.pop(0)
        self._servers.append(server)
        client = self._nats.NATS()
        connecting = client.connect(
            [server],
            **self._authentication(client),
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=self.patience.connect_s,
            ping_interval=self.patience.ping_s,
            error_cb=self._on_error,
            closed_cb=on_closed,
        )
        try:
            await asyncio.wait_for(connecting, self.patience.connect_s)
        except BaseException:
            await _close(client)
            raise
        self._add_servers(client)
        return client

    def _authentication(self, client: Any) -> dict[str, Any]:
        """How the server knows us. Secrets are read again each time: they may have changed."""
        secrets = self._addresses.read_secrets()
        found: dict[str, Any] = {"tls": self._addresses.tls_context()}
        seed = secrets.nkey
        if secrets.creds is not None:
            jwt, seed = read_creds(secrets.creds)
            found["user_jwt_cb"] = jwt.encode
        if seed is not None:
            # What nats-py has for it needs a package of its own.
            client._public_nkey = sign(seed, "")[0]
            return {**found, "signature_cb": lambda nonce: base64.b64encode(sign(seed, nonce)[1])}
        return {**found, "token": secrets.token, "user": secrets.user, "password": secrets.password}

    def _add_servers(self, client: Any) -> None:
        """Those of the same cluster, in the place of one that is lost."""
        known = {urlsplit(each).netloc for each in self._servers}
        found = (each for each in client.discovered_servers if each.netloc not in known)
        self._servers += [each.geturl() for each in found]

    async def _on_error(self, error: Exception) -> None:
        text = os_reason(error).removeprefix("nats: ")
        if (denial := Denial.parse(text)) is None:
            self._reason = text
            return
        found = [callback(denial) for callback in tuple(self.on_denial)]
        self.denied(next((each for each in found if each is not None), denial))

    def denied(self, denial: Denial) -> BrokerDenied:
        """What a missing right means for its caller. The first one is kept: nothing can go on."""
        error = BrokerDenied(self.address, denial)
        if self.denial is None:
            self.denial = error
            logger.error("%s", error.message, extra={"event": "broker.denied", "hint": error.hint})
        return error


async def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.flush(), CLOSE_TIMEOUT_S)
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), CLOSE_TIMEOUT_S)
