"""A connection to NATS servers: its options, and what is done for each new connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

from torvyn._io.connection import Connection
from torvyn._io.packages import import_package
from torvyn._io.safe_text import without_credentials
from torvyn.components.config import wrong_config
from torvyn.components.network.reconnecting_client import CLOSE_TIMEOUT_S, ReconnectingClient
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.spec import Option, Spec
from torvyn.components.tls import TLS_OPTIONS, check_tls_options, client_tls
from torvyn.errors import os_reason

OPTIONS: Final = (
    Option(
        "servers",
        "words",
        ("nats://127.0.0.1:4222",),
        "The URLs of the servers, `nats://` or, with TLS, `tls://`.",
    ),
    Option("user", "text", "", "The user name."),
    Option("password", "text", "", "The password."),
    Option("token", "text", "", "The token, instead of a user name."),
    Option("credentials", "text", "", "The path of a credentials file, instead of a user name."),
    *TLS_OPTIONS,
    ON_DISCONNECT,
)
"""How to connect, for the source and the sink."""

CONNECT_TIMEOUT_S: Final = 5
PING_INTERVAL_S: Final = 20


def check_options(spec: Spec, options: dict[str, Any]) -> None:
    """Raises what can be found before the flow starts."""
    schemes = {server.partition("://")[0] for server in options["servers"] if "://" in server}
    if not options["servers"] or schemes - {"nats", "tls"}:
        raise wrong_config(spec, "`servers` needs URLs such as `nats://10.0.0.2:4222`")
    check_tls_options(spec, options, "tls" if "tls" in schemes else "nats", "tls")


def render_servers(options: dict[str, Any]) -> str:
    """The URLs without passwords."""
    return without_credentials(",".join(options["servers"]))


class NatsClient(ReconnectingClient):
    """Connects, and connects again. `on_connected` subscribes; it may raise to try later."""

    def __init__(
        self,
        spec: Spec,
        options: dict[str, Any],
        connection: Connection,
        on_connected: Callable[[Any], Coroutine[Any, Any, None]],
        on_failed: Callable[[], None],
    ) -> None:
        super().__init__(connection, options["on_disconnect"], on_failed)
        self._nats = import_package("nats", "`nats`", "nats")
        uses_tls = any(server.startswith("tls://") for server in options["servers"])
        self._tls = client_tls(spec, options) if uses_tls else None
        self._options = options
        self._on_connected = on_connected
        self._reason = ""
        self.client: Any = None
        """The connected client, or None. For coroutines on the loop."""
        self.dropped = 0
        """How many messages of subjects were dropped, because the flow was too slow."""
        self._ready = asyncio.Event()

    async def reconnect(self, reason: str = "the server does not answer") -> None:
        """Gives up a connection."""
        if self.client is not None:
            self._reason = reason
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self.client.close(), CLOSE_TIMEOUT_S)

    async def connected(self) -> Any:
        """Waits for a connection and returns the client."""
        while self.client is None:
            await self._ready.wait()
        return self.client

    async def session(self) -> str:
        closed = asyncio.Event()
        self._reason = ""
        try:
            client = await self._connect(closed)
        except (OSError, TimeoutError, ValueError, self._nats.errors.Error) as error:
            return self._reason or os_reason(error)
        self.client = client
        self.established()
        self._ready.set()
        try:
            await closed.wait()
        finally:
            self.client = None
            self._ready.clear()
            await _close(client)
        return self._reason or "the server closed the connection"

    async def _connect(self, closed: asyncio.Event) -> Any:
        async def on_closed() -> None:
            closed.set()

        options = self._options
        client = await self._nats.connect(
            list(options["servers"]),
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_TIMEOUT_S,
            ping_interval=PING_INTERVAL_S,
            tls=self._tls,
            error_cb=self._on_error,
            closed_cb=on_closed,
            user=options["user"] or None,
            password=options["password"] or None,
            token=options["token"] or None,
            user_credentials=options["credentials"] or None,
        )
        try:
            await self._on_connected(client)
        except BaseException:
            await client.close()
            raise
        return client

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, self._nats.errors.SlowConsumerError):
            self.dropped += 1
            return
        self._reason = os_reason(error).removeprefix("nats: ")


async def _close(client: Any) -> None:
    """Sends what was published first."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.flush(), CLOSE_TIMEOUT_S)
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), CLOSE_TIMEOUT_S)
