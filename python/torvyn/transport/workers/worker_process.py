"""One worker, as its parent sees it: a process that is started again when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from torvyn._io.backoff import Backoff
from torvyn.transport.workers.share import Share
from torvyn.transport.workers.status_channel import StatusChannel
from torvyn.transport.workers.worker_signals import ENDS_ALL

logger = logging.getLogger("torvyn.transport")

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_STABLE_S: Final = 60.0
"""A worker that ran for so long is started again at once."""


class WorkerProcess:
    def __init__(
        self,
        share: Share,
        command: Sequence[str],
        folder: Path,
        watchdog_s: float | None,
        on_change: Callable[[], None],
    ) -> None:
        self.share = share
        self.is_ready = False
        self.was_ready = False
        self.restarts = 0
        self._command = [*command, "--worker", str(share)]
        self._channel = StatusChannel(folder / f"worker-{share.worker}")
        self._watchdog_s = watchdog_s
        self._fed_s = 0.0
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def keep(self) -> int:
        """Runs until it was told to stop, or until it ends before it was ready; returns its status.
        Otherwise it is started again."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._channel.fileno(), self._read)
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, random=lambda: 1.0)
        try:
            while True:
                began_s = time.monotonic()
                status = await self._run()
                if self._is_stopping or not self.was_ready:
                    return status
                if time.monotonic() - began_s >= _STABLE_S:
                    backoff.reset()
                logger.error("worker %s %s; it is started again", self.share, _ending(status))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), backoff.next_delay_s())
                if self._is_stopping:
                    return status
                self.restarts += 1
        finally:
            loop.remove_reader(self._channel.fileno())
            self._channel.close()

    async def _run(self) -> int:
        # A session of its own, because a terminal would send its signals to all of them at once.
        # The worker ends when the pipe is closed.
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            env=self._channel.environment(self._watchdog_s),
            start_new_session=True,
        )
        self._fed_s = time.monotonic()
        if self._is_stopping:
            self.stop(signal.SIGTERM)
        status = await self._process.wait()
        self._process = None
        self.is_ready = False
        self._on_change()
        return status

    def _read(self) -> None:
        for line in self._channel.read():
            self._fed_s = time.monotonic()
            if line == "READY=1":
                self.is_ready = self.was_ready = True
                self._on_change()
            elif line == "STOPPING=1":
                self.is_ready = False

    def check_watchdog(self) -> None:
        """Ends a worker whose event loop has not run for two intervals of the watchdog."""
        if self._watchdog_s is None or not self.is_ready:
            return
        silence_s = time.monotonic() - self._fed_s
        if silence_s > 2 * self._watchdog_s:
            logger.error("worker %s has not answered for %.0f s", self.share, silence_s)
            self.send(signal.SIGKILL)

    def stop(self, number: int) -> None:
        """Sends the signal, and does not start it again."""
        self._is_stopping = True
        self._stopping.set()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(ENDS_ALL)
        self.send(number)

    def send(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


def _ending(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
