"""A connection to NATS servers that comes back, on the background loop.

The library's own reconnecting is off: here a lost connection is reported, and the delays between
tries grow, with jitter.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

from torvyn.components.client_tls import TLS_OPTIONS, check_tls_options, client_tls
from torvyn.components.config import wrong_config
from torvyn.components.connection import Backoff, Connection
from torvyn.components.packages import import_package
from torvyn.components.retry import ON_DISCONNECT, describe
from torvyn.components.spec import Option, Spec
from torvyn.concurrency.background_loop import background_loop

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
CLOSE_TIMEOUT_S: Final = 2.0


def check_options(spec: Spec, options: dict[str, Any]) -> None:
    """Raises what can be found before the flow starts."""
    schemes = {server.partition("://")[0] for server in options["servers"] if "://" in server}
    if not options["servers"] or schemes - {"nats", "tls"}:
        raise wrong_config(spec, "`servers` needs URLs such as `nats://10.0.0.2:4222`")
    check_tls_options(spec, options, "tls" if "tls" in schemes else "nats", "tls")


def render_servers(options: dict[str, Any]) -> str:
    """The URLs without passwords."""
    parts = [server.rpartition("//") for server in options["servers"]]
    return ", ".join(f"{scheme}{mark}{rest.rpartition('@')[2]}" for scheme, mark, rest in parts)


class NatsClient:
    """Connects, and connects again. `on_connected` subscribes; it may raise to try later."""

    def __init__(
        self,
        spec: Spec,
        options: dict[str, Any],
        connection: Connection,
        on_connected: Callable[[Any], Coroutine[Any, Any, None]],
        on_failed: Callable[[], None],
    ) -> None:
        self._nats = import_package("nats", "nats", "nats")
        uses_tls = any(server.startswith("tls://") for server in options["servers"])
        self._tls = client_tls(spec, options) if uses_tls else None
        self._options = options
        self._connection = connection
        self._on_connected = on_connected
        self._on_failed = on_failed
        self._fails = options["on_disconnect"] == "fail"
        self._loop = background_loop()
        self._run_result: concurrent.futures.Future[None] | None = None
        self._reason = ""
        self.failure: str | None = None
        """Why it has given up, if it was told to fail."""
        self.client: Any = None
        """The connected client, or None. For coroutines on the loop."""
        self.dropped = 0
        """How many messages of subjects were dropped, because the flow was too slow."""
        self._ready = asyncio.Event()

    def start(self) -> None:
        self._run_result = self.submit(self._run())

    def submit(self, coroutine: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
        """Runs a coroutine on the loop. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call_soon(self, callback: Callable[[], Any]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def stop(self) -> None:
        """Sends what was published and closes the connection. May be called from any thread."""
        if self._run_result is None:
            return
        self._run_result.cancel()
        with contextlib.suppress(Exception, concurrent.futures.CancelledError):
            self.submit(self._close()).result(2 * CLOSE_TIMEOUT_S)

    async def reconnect(self) -> None:
        """Gives up a connection on which nothing is answered."""
        if self.client is not None:
            self._reason = "the server does not answer"
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self.client.close(), CLOSE_TIMEOUT_S)

    async def connected(self) -> Any:
        """Waits for a connection and returns the client."""
        while self.client is None:
            await self._ready.wait()
        return self.client

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            closed = asyncio.Event()
            self._reason = ""
            try:
                client = await self._connect(closed)
            except (OSError, TimeoutError, ValueError, self._nats.errors.Error) as error:
                self._reason = self._reason or describe(error)
            else:
                self.client = client
                self._connection.connected()
                backoff.reset()
                self._ready.set()
                await closed.wait()
                self.client = None
                self._ready.clear()
            self._connection.lost(self._reason or "the server closed the connection")
            if self._fails:
                self.failure = self._reason or "the server closed the connection"
                self._on_failed()
                return
            await asyncio.sleep(backoff.next_delay_s())

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
        self._reason = describe(error).removeprefix("nats: ")

    async def _close(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.flush(), CLOSE_TIMEOUT_S)
            await client.close()
