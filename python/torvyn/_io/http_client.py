"""HTTP connections to one server: one aiohttp session with keep-alive per event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.event_loop import keep_task
from torvyn._io.per_loop import ResourcePerLoop

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger("torvyn.concurrency")

_DRAIN_S: Final = 0.5


class ConnectionPool(ResourcePerLoop["aiohttp.ClientSession"]):
    """Gives each running loop its session. A session must be closed before its loop ends, or
    aiohttp logs an error."""

    def __init__(
        self, connect_timeout_s: float, ssl: SSLContext | bool = True, **session: Any
    ) -> None:
        """`session` are options of `aiohttp.ClientSession`."""
        super().__init__(partial(_open_session, connect_timeout_s, ssl, session))

    def _is_usable(self, opened: aiohttp.ClientSession) -> bool:
        return not opened.closed


def release_response(response: aiohttp.ClientResponse) -> None:
    """Releases a response whose content has ended. A task waits a moment for the end of its body,
    so that the connection can be used again."""
    if response.content.at_eof():
        response.close()
        return
    keep_task(asyncio.get_running_loop().create_task(_drain(response)))


async def _drain(response: aiohttp.ClientResponse) -> None:
    try:
        async with asyncio.timeout(_DRAIN_S):
            # At most one more chunk: a longer body is not worth the connection.
            await response.content.readany()
    except Exception:
        logger.debug("a response body did not end", exc_info=True)
    finally:
        response.close()


async def _open_session(
    connect_timeout_s: float, ssl: SSLContext | bool, options: dict[str, Any]
) -> AsyncGenerator[aiohttp.ClientSession, None]:
    import aiohttp

    # `connect` and not `sock_connect`, which does not count the look-up of the address.
    timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout_s)
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, **options) as session:
        yield session
