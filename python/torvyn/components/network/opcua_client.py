"""A connection to an OPC UA server that comes back, on the background loop.

asyncua is large, and is imported when a flow uses it. Its own reconnecting is off.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

from torvyn.components.connection import Backoff, Connection
from torvyn.components.packages import import_package, quiet_logger
from torvyn.components.retry import describe
from torvyn.concurrency.background_loop import background_loop

CLOSE_TIMEOUT_S: Final = 3.0


class OpcUaClient:
    """Connects, serves until the connection is lost, and connects again."""

    def __init__(
        self,
        options: dict[str, Any],
        connection: Connection,
        serve: Callable[[Any], Coroutine[Any, Any, None]],
        on_failed: Callable[[], None],
    ) -> None:
        self._library = import_package("asyncua", "opcua", "opcua")
        quiet_logger("asyncua")
        self._options = options
        self._connection = connection
        self._serve = serve
        self._on_failed = on_failed
        self._backoff = Backoff()
        self.failure: str | None = None
        """Why it has given up, if it was told to fail."""
        self._result: concurrent.futures.Future[None] | None = None
        self._ended = asyncio.Event()

    @property
    def ua(self) -> Any:
        return self._library.ua

    def start(self) -> None:
        self._result = asyncio.run_coroutine_threadsafe(self._run(), background_loop())

    def stop(self) -> None:
        """Closes the connection. May be called from any thread but the loop's."""
        if self._result is None:
            return
        loop = background_loop()
        self._result.cancel()
        with contextlib.suppress(
            concurrent.futures.TimeoutError, concurrent.futures.CancelledError
        ):
            asyncio.run_coroutine_threadsafe(self._ended.wait(), loop).result(CLOSE_TIMEOUT_S)

    def is_ready(self) -> None:
        """Called by `serve` when values can arrive."""
        self._connection.connected()
        self._backoff.reset()

    async def wait_for_loss(self, client: Any) -> None:
        """Returns when the connection is gone."""
        states = import_package("asyncua.client.ua_client", "opcua", "opcua").UaClientState
        async with client.subscribe_state() as changes:
            await changes.wait_for_state(states.DISCONNECTED)

    async def _run(self) -> None:
        try:
            while True:
                reason = await self._connect_and_serve()
                self._connection.lost(reason)
                if self._options["on_disconnect"] == "fail":
                    self.failure = reason
                    self._on_failed()
                    return
                await asyncio.sleep(self._backoff.next_delay_s())
        finally:
            self._ended.set()

    async def _connect_and_serve(self) -> str:
        """Why the connection is gone."""
        client = await self._client()
        try:
            await client.connect()
            await self._serve(client)
        except (OSError, TimeoutError, ValueError, self.ua.UaError) as error:
            return describe(error)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.disconnect(), CLOSE_TIMEOUT_S)
        return "the server closed the connection"

    async def _client(self) -> Any:
        options = self._options
        client = self._library.Client(options["url"], timeout=options["timeout"])
        if options["user"]:
            client.set_user(options["user"])
            client.set_password(options["password"])
        if options["security"]:
            await client.set_security_string(options["security"])
        return client
