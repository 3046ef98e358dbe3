"""Connections to one server: a pool with keep-alive for each event loop that asks.

A loop's pool ends with the loop (`asyncio.run` closes it), with its owner, or with the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from collections.abc import AsyncGenerator
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

from torvyn.errors import MissingError

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger("torvyn.concurrency")

_CLOSE_S: Final = 2.0
_REST_S: Final = 0.5
Keeper = AsyncGenerator["aiohttp.ClientSession", None]


class Pool:
    """`session()` on a running loop."""

    def __init__(
        self, connect_timeout_s: float, ssl: SSLContext | bool = True, **session: Any
    ) -> None:
        """`session` are options of aiohttp's."""
        self._make = partial(_keep, connect_timeout_s, ssl, session)
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[Keeper, aiohttp.ClientSession]
        ] = weakref.WeakKeyDictionary()
        # One that nobody closed is closed before its loop is gone, or aiohttp complains of it.
        weakref.finalize(self, _let_go, self._kept)

    async def session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is not None and not kept[1].closed:
            return kept[1]
        keeper = self._make()
        session = await anext(keeper)
        with self._lock:
            self._kept[loop] = (keeper, session)
        return session

    def close(self) -> None:
        """From any thread. The connections of a loop are closed on it."""
        with self._lock:
            kept = list(self._kept.items())
            self._kept.clear()
        for loop, (keeper, _) in kept:
            if loop is asyncio._get_running_loop():
                _ENDING.add(task := loop.create_task(_end(keeper)))
                task.add_done_callback(_ENDING.discard)
            elif loop.is_running():
                ending = asyncio.run_coroutine_threadsafe(_end(keeper), loop)
                with contextlib.suppress(TimeoutError):
                    ending.result(_CLOSE_S)

    async def aclose(self) -> None:
        """The same; the connections of this loop are closed when this returns."""
        with self._lock:
            kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept is not None:
            await _end(kept[0])
        self.close()


def read_out(response: aiohttp.ClientResponse) -> None:
    """Lets go of an answer that says no more: the end of its body is waited for elsewhere, and
    shortly, so that the connection can be used again."""
    if response.content.at_eof():
        response.close()
        return
    _ENDING.add(task := asyncio.get_running_loop().create_task(_read_out(response)))
    task.add_done_callback(_ENDING.discard)


async def _read_out(response: aiohttp.ClientResponse) -> None:
    try:
        async with asyncio.timeout(_REST_S):
            # One more piece at most: what goes on after its end is not worth its connection.
            await response.content.readany()
    except Exception:
        logger.debug("the end of an answer did not come", exc_info=True)
    finally:
        response.close()


def _let_go(kept: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any]) -> None:
    """Nobody is waited for, except at the end of the program."""
    for loop, (keeper, _) in list(kept.items()):
        if loop.is_running():
            ending = asyncio.run_coroutine_threadsafe(_end(keeper), loop)
            if not threading.main_thread().is_alive():
                ending.result(_CLOSE_S)


_ENDING: Final[set[asyncio.Task[None]]] = set()
"""A loop keeps its tasks weakly."""


async def _keep(
    connect_timeout_s: float, ssl: SSLContext | bool, options: dict[str, Any]
) -> Keeper:
    """A session for as long as this generator lives: a loop that ends closes its generators."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, **options) as session:
        yield session


async def _end(keeper: Keeper) -> None:
    await keeper.aclose()


def require_aiohttp(code: str, who: str, extra: str) -> None:
    """Raises, with the code, when the package is not installed that `who` needs."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        hint = f"pip install 'torvyn[{extra}]'"
        raise MissingError(code, f"{who} needs the package `aiohttp`", hint=hint) from None
