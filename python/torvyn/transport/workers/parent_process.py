"""The parent of several workers: it starts them, restarts those that end, and forwards signals.

It serves nothing itself. It binds the port without listening, so that the port is known before the
first worker listens and stays theirs while one is started again. It is ready when all of them are.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from torvyn.concurrency.signals import SignalHandler
from torvyn.machine.systemd_notify import notify, watchdog_interval_s
from torvyn.transport.listener.sockets import bind
from torvyn.transport.settings import ServerSettings
from torvyn.transport.workers.share import Share
from torvyn.transport.workers.worker_process import WorkerProcess

_KILL_S: Final = 5.0
"""How much longer than `shutdown_grace` a worker may take to end."""


def run_workers(
    command: Sequence[str],
    count: int,
    settings: ServerSettings,
    on_ready: Callable[[str, list[int]], None],
    on_stopping: Callable[[], None],
) -> tuple[int, int]:
    """Runs workers of that command until a signal ends them. Returns the number of the signal and
    0; or 0 and the status of a worker that could not start. `on_ready` gets the URL and the
    processes."""
    with bind(settings, settings.port, is_shared=True) as reserved, _folder() as folder:
        port = reserved.getsockname()[1]
        parent = ParentProcess(count, settings, port, on_ready, on_stopping)
        return asyncio.run(parent.run([*command, "--port", str(port)], folder))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="torvyn-") as folder:
        yield Path(folder)


class ParentProcess:
    def __init__(
        self,
        count: int,
        settings: ServerSettings,
        port: int,
        on_ready: Callable[[str, list[int]], None],
        on_stopping: Callable[[], None],
    ) -> None:
        self._count = count
        self._settings = settings
        self._on_ready = on_ready
        self._on_stopping = on_stopping
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._url = f"{'https' if settings.tls_cert else 'http'}://{host}:{port}"
        self._workers: list[WorkerProcess] = []
        self._was_ready = False
        self._signal = 0

    async def run(self, command: Sequence[str], folder: Path) -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        shares = [Share(number, self._count) for number in range(1, self._count + 1)]
        watchdog_s = watchdog_interval_s()
        self._workers = [
            WorkerProcess(share, command, folder, watchdog_s, self._on_change) for share in shares
        ]
        loop.add_signal_handler(signal.SIGHUP, self._forward, signal.SIGHUP)
        with SignalHandler(lambda n: loop.call_soon_threadsafe(self._stop, n), loop=loop):
            feeding = asyncio.ensure_future(self._feed_watchdog(watchdog_s))
            keeping = [asyncio.ensure_future(worker.keep()) for worker in self._workers]
            # A worker that ends for good without a signal has failed to start: the others follow.
            await asyncio.wait(keeping, return_when=asyncio.FIRST_COMPLETED)
            if not self._signal:
                self._forward_stop(signal.SIGTERM)
            statuses = await asyncio.gather(*keeping)
            feeding.cancel()
        return self._signal, 0 if self._signal else max(map(abs, statuses), default=1)

    def _on_change(self) -> None:
        ready = sum(worker.is_ready for worker in self._workers)
        if ready == self._count and not self._was_ready:
            self._was_ready = True
            self._on_ready(self._url, [worker.pid or 0 for worker in self._workers])
            notify("READY=1")
        if not self._signal:
            notify(f"STATUS={ready} of {self._count} workers serve at {self._url}")

    def _stop(self, number: int) -> None:
        if not self._signal:
            self._signal = number
            self._on_stopping()
            notify("STOPPING=1", f"STATUS=ending {self._count} workers")
        self._forward_stop(number)

    def _forward_stop(self, number: int) -> None:
        for worker in self._workers:
            worker.stop(number)
        grace_s = self._settings.shutdown_grace_s + _KILL_S
        asyncio.get_running_loop().call_later(grace_s, self._forward, signal.SIGKILL)

    def _forward(self, number: int) -> None:
        for worker in self._workers:
            worker.send(number)

    async def _feed_watchdog(self, interval_s: float | None) -> None:
        while interval_s is not None:
            notify("WATCHDOG=1")
            for worker in self._workers:
                worker.check_watchdog()
            await asyncio.sleep(interval_s)
