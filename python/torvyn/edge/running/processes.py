"""Starts and ends the processes of generations, and waits for what they report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from torvyn._io.process import SignalWaiter
from torvyn._io.supervision import notify, watchdog_interval_s
from torvyn.edge.generations import Deployment, GenerationRecord
from torvyn.edge.running.generation_process import GenerationProcess
from torvyn.edge.running.run_options import RunOptions

_TICK_S: Final = 0.25


class Processes:
    def __init__(
        self,
        deployment: Deployment,
        options: RunOptions,
        folder: Path,
        lock: int,
        signals: SignalWaiter,
        pause: Callable[[float], None],
    ) -> None:
        """`folder`: for their sockets. `pause` raises when the run is to stop."""
        self._deployment: Final = deployment
        self._options: Final = options
        self._folder: Final = folder
        self._lock: Final = lock
        self._signals: Final = signals
        self._pause: Final = pause
        self._sockets: dict[str, int] = {}
        self._draining: list[tuple[GenerationProcess, float]] = []

    def prepare(self, record: GenerationRecord) -> GenerationProcess:
        """Starts one that loads the generation and waits."""
        process = GenerationProcess(
            record,
            self._options.command(record),
            self._folder,
            data=self._deployment.data,
            stall_s=self._options.stall_s,
            lock=self._lock,
            wake=self._signals.wake,
            sockets=self._sockets,
        )
        process.hold({record.number: self._deployment.hold(record.number)})
        return process

    def wait(self, process: GenerationProcess, attribute: str, timeout_s: float) -> bool:
        """Waits until an attribute is true; returns whether it is."""
        until_s = time.monotonic() + timeout_s
        while process.is_running and not getattr(process, attribute):
            if time.monotonic() > until_s:
                return False
            try:
                self._pause(_TICK_S)
            except BaseException:
                self.end(process)
                raise
        return bool(getattr(process, attribute))

    def end(self, process: GenerationProcess | None) -> None:
        """Lets the flow drain and save its state; not for longer than that takes."""
        if process is None:
            return
        process.stop()
        until_s = time.monotonic() + process.stop_s
        while process.is_running and time.monotonic() < until_s:
            self._signals.wait(time.monotonic() + 0.1)
            feed_watchdog()
        process.close()

    def retire(self, process: GenerationProcess) -> None:
        """Ends it while others go on."""
        process.stop()
        self._draining.append((process, time.monotonic() + process.stop_s))

    def sweep(self) -> None:
        """Closes retired processes that have ended, or had their time."""
        for entry in list(self._draining):
            process, until_s = entry
            if not process.is_running or time.monotonic() > until_s:
                self._draining.remove(entry)
                process.close()

    def keep_sockets(self, process: GenerationProcess) -> None:
        """From now on, its listening sockets are handed to the processes after it."""
        released, self._sockets = self._sockets, dict(process.sockets)
        for descriptor in released.values():
            os.close(descriptor)

    def close(self) -> None:
        """Ends what is left."""
        for process, _ in self._draining:
            self.end(process)
        self._draining.clear()
        for descriptor in self._sockets.values():
            os.close(descriptor)


def feed_watchdog() -> None:
    if watchdog_interval_s() is not None:
        notify("WATCHDOG=1")
