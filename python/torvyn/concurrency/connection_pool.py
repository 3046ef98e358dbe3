"""HTTP connections to one server: one aiohttp session with keep-alive per event loop.

A session is closed with its loop (by `asyncio.run`), with the pool, or with the program.
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
_DRAIN_S: Final = 0.5
SessionScope = AsyncGenerator["aiohttp.ClientSession", None]
"""Yields a session once, and closes it when the generator is closed."""


class ConnectionPool:
    """Gives each running loop its session."""

    def __init__(
        self, connect_timeout_s: float, ssl: SSLContext | bool = True, **session: Any
    ) -> None:
        """`session` are options of `aiohttp.ClientSession`."""
        self._open = partial(_open_session, connect_timeout_s, ssl, session)
        self._lock = threading.Lock()
        self._sessions: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[SessionScope, aiohttp.ClientSession]
        ] = weakref.WeakKeyDictionary()
        # A session must be closed before its loop ends, or aiohttp logs an error.
        weakref.finalize(self, _close_sessions, self._sessions)

    async def session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        entry = self._sessions.get(loop)
        if entry is not None and not entry[1].closed:
            return entry[1]
        scope = self._open()
        session = await anext(scope)
        with self._lock:
            self._sessions[loop] = (scope, session)
        return session

    def close(self) -> None:
        """Closes all sessions, each on its loop. From any thread."""
        with self._lock:
            entries = list(self._sessions.items())
            self._sessions.clear()
        for loop, (scope, _) in entries:
            if loop is asyncio._get_running_loop():
                _keep_task(loop.create_task(_close_session(scope)))
            elif loop.is_running():
                closed = asyncio.run_coroutine_threadsafe(_close_session(scope), loop)
                with contextlib.suppress(TimeoutError):
                    closed.result(_CLOSE_S)

    async def aclose(self) -> None:
        """Like `close`, and waits for the session of the running loop."""
        with self._lock:
            entry = self._sessions.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await _close_session(entry[0])
        self.close()


def release_response(response: aiohttp.ClientResponse) -> None:
    """Releases a response whose content has ended. A task waits a moment for the end of its body,
    so that the connection can be used again."""
    if response.content.at_eof():
        response.close()
        return
    _keep_task(asyncio.get_running_loop().create_task(_drain(response)))


async def _drain(response: aiohttp.ClientResponse) -> None:
    try:
        async with asyncio.timeout(_DRAIN_S):
            # At most one more chunk: a longer body is not worth the connection.
            await response.content.readany()
    except Exception:
        logger.debug("a response body did not end", exc_info=True)
    finally:
        response.close()


def _close_sessions(sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any]) -> None:
    """Waits for the sessions only at the end of the program."""
    for loop, (scope, _) in list(sessions.items()):
        if loop.is_running():
            closed = asyncio.run_coroutine_threadsafe(_close_session(scope), loop)
            if not threading.main_thread().is_alive():
                closed.result(_CLOSE_S)


_TASKS: Final[set[asyncio.Task[None]]] = set()


def _keep_task(task: asyncio.Task[None]) -> None:
    """A loop has only weak references to its tasks."""
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


async def _open_session(
    connect_timeout_s: float, ssl: SSLContext | bool, options: dict[str, Any]
) -> SessionScope:
    """A loop that ends closes its generators, and so this session."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, **options) as session:
        yield session


async def _close_session(scope: SessionScope) -> None:
    await scope.aclose()


def require_aiohttp(code: str, who: str, extra: str) -> None:
    """Raises a `MissingError` with the code if aiohttp is not installed."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        hint = f"pip install 'torvyn[{extra}]'"
        raise MissingError(code, f"{who} needs the package `aiohttp`", hint=hint) from None
