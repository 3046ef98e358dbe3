"""A connection to an OPC UA server.

asyncua is large, and is imported when a flow uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from torvyn._io.connection import Connection
from torvyn._io.packages import import_package, quiet_logger
from torvyn.components.network.reconnecting_client import CLOSE_TIMEOUT_S, ReconnectingClient
from torvyn.errors import os_reason


class OpcUaClient(ReconnectingClient):
    """`serve` gets each new connection, calls `established`, and returns when it is lost."""

    def __init__(
        self,
        options: dict[str, Any],
        connection: Connection,
        serve: Callable[[Any], Coroutine[Any, Any, None]],
        on_failed: Callable[[], None],
    ) -> None:
        super().__init__(connection, options["on_disconnect"], on_failed)
        self._library = import_package("asyncua", "`opcua`", "opcua")
        quiet_logger("asyncua")
        self._options = options
        self._serve = serve

    @property
    def ua(self) -> Any:
        return self._library.ua

    async def wait_for_loss(self, client: Any) -> None:
        """Returns when the connection is gone."""
        states = import_package("asyncua.client.ua_client", "`opcua`", "opcua").UaClientState
        async with client.subscribe_state() as changes:
            await changes.wait_for_state(states.DISCONNECTED)

    async def session(self) -> str:
        client = await self._client()
        try:
            await client.connect()
            await self._serve(client)
        except (OSError, TimeoutError, ValueError, self.ua.UaError) as error:
            return os_reason(error)
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
