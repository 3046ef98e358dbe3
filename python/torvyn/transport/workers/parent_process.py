"""The parent of several workers: it starts them, restarts those that end, and forwards signals.

It serves nothing itself. It binds the ports without listening, so that they are known before the
first worker listens and stay theirs while one is started again. It is ready when all of them are.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from torvyn._io.process import SignalHandler
from torvyn._io.supervision import notify, watchdog_interval_s
from torvyn.transport.listener.sockets import address_of, bind
from torvyn.transport.settings import ServerSettings
from torvyn.transport.workers.share import Share
from torvyn.transport.workers.worker_process import WorkerProcess

_KILL_S: Final = 5.0
"""How much longer than `shutdown_grace` a worker may take to end."""


def run_workers(
    command: Sequence[str],
    count: int,
    settings: ServerSettings,
    on_ready: Callable[[str, str | None, list[int]], None],
    on_stopping: Callable[[], None],
) -> tuple[int, int]:
    """Runs workers of that command until a signal ends them. Returns the number of the signal and
    0; or 0 and the status of a worker that could not start. `on_ready` gets the URL, the address of
    gRPC if it has a port of its own, and the processes."""
    with contextlib.ExitStack() as stack:
        reserved = [stack.enter_context(bind(settings, settings.port, is_shared=True))]
        words = [*command, "--port", str(reserved[0].getsockname()[1])]
        if settings.grpc_port is not None:
            flag = "--grpc-port"
            sock = bind(settings, settings.grpc_port, is_shared=True, flag=flag)
            reserved.append(stack.enter_context(sock))
            words += [flag, str(sock.getsockname()[1])]
        addresses = [address_of(sock) for sock in reserved]
        parent = ParentProcess(count, settings, addresses, on_ready, on_stopping)
        return asyncio.run(parent.run(words, stack.enter_context(_folder())))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="torvyn-") as folder:
        yield Path(folder)


class ParentProcess:
    def __init__(
        self,
        count: int,
        settings: ServerSettings,
        addresses: Sequence[str],
        on_ready: Callable[[str, str | None, list[int]], None],
        on_stopping: Callable[[], None],
    ) -> None:
        self._count = count
        self._settings = settings
        self._on_ready = on_ready
        self._on_stopping = on_stopping
        self._url = f"{'https' if settings.tls_cert else 'http'}://{addresses[0]}"
        self._grpc_address = addresses[1] if len(addresses) > 1 else None
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
            pids = [worker.pid or 0 for worker in self._workers]
            self._on_ready(self._url, self._grpc_address, pids)
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
