"""SIGHUP: reloads the certificate, the audit file and the flows, without touching open
connections. Answers that have begun go on as they are.

A terminal that is closed sends the same signal. A server that was started in that terminal ends
then, as it would without a handler.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from torvyn._io.supervision import notify
from torvyn.errors import TorvynError

if TYPE_CHECKING:
    from torvyn.transport.listener.server import Server

logger = logging.getLogger("torvyn.transport")


def reload_on_hangup(server: Server, on_terminal_closed: Callable[[], None]) -> None:
    """Handles the signal for as long as the running loop lives."""
    had_terminal = _has_terminal()
    reloader = Reloader(server)

    def on_hangup() -> None:
        if had_terminal and not _has_terminal():
            on_terminal_closed()
        else:
            reloader.reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)


class Reloader:
    """One reload at a time: however many signals arrive during one, one more follows it. Each links
    every flow anew, which takes time and memory."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._running: asyncio.Future[None] | None = None
        self._is_due = False
        """A signal has arrived since the running one began."""

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def reload(self) -> None:
        if self._running is not None:
            self._is_due = True
            return
        reload(self._server)
        # Linking imports code, so it does not happen on the loop.
        loop = asyncio.get_running_loop()
        self._running = loop.run_in_executor(None, reload_flows, self._server)
        self._running.add_done_callback(self._on_done)

    def _on_done(self, done: asyncio.Future[None]) -> None:
        self._running = None
        if not done.cancelled() and (error := done.exception()) is not None:
            logger.error(
                "the flows cannot be reloaded; the server keeps what it has", exc_info=error
            )
        if self._is_due:
            self._is_due = False
            self.reload()


def reload(server: Server) -> None:
    problems = server.reload()
    for problem in problems:
        logger.error("%s; the server keeps what it has", problem.message)
    if not problems:
        logger.info("reloaded the certificate and the audit file")
    notify(f"STATUS=serving at {server.url}" + ("; a reload failed, see the log" * bool(problems)))


def reload_flows(server: Server) -> None:
    try:
        names = server.application.reload_flows()
    except TorvynError as error:
        for problem in error.diagnostics:
            logger.error("%s; the server keeps what it has", problem.message)
    else:
        if names:
            logger.info("reloaded the flows %s", ", ".join(names))


def _has_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False
