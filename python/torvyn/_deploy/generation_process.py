"""The process of one generation: how it is started and ended, and what it reports.

It first loads everything and waits; then it is told to start. It sends the messages that systemd
defines, and one more, when it is prepared. When the process that started it is gone, a pipe closes
and it stops, so that no generation runs without supervision.

The arguments with which a generation is linked and run.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torvyn._deploy.deployment import Deployment
from torvyn._deploy.generation_state import GenerationRecord
from torvyn._deploy.trial import Statuses
from torvyn._io.process import SignalWaiter
from torvyn._io.restart import keep_running
from torvyn._io.supervision import CONTROL, OVERLAPS, PREPARED, STOP_S, notify, watchdog_interval_s
from torvyn.transport.listener.handed_sockets import VARIABLE as SOCKETS

if TYPE_CHECKING:
    from torvyn._deploy.settings import DeploymentSettings

START: Final = b"start\n"

_DEFAULT_STOP_S: Final = 30.0


class GenerationProcess:
    """Attributes change on another thread, which then calls `wake`."""

    def __init__(
        self,
        record: GenerationRecord,
        command: Sequence[str],
        folder: Path,
        *,
        data: Path,
        stall_s: float,
        lock: int,
        wake: Callable[[], None],
        sockets: Mapping[str, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sockets`: listening sockets of the process before, as descriptors, by name."""
        self.record = record
        self.generations = {record.number}
        """Those that have run in it."""
        self.holds: dict[int, int] = {}
        """Locks of the generations that it uses, as descriptors, by number."""
        self.is_prepared = self.is_ready = self.can_overlap = False
        self.sockets: dict[str, int] = {}
        """Those on which it listens, as descriptors."""
        self.status = ""
        self.stop_s = _DEFAULT_STOP_S
        self.exit_code: int | None = None
        self._stall_s = stall_s
        self._clock = clock
        self._fed_s = clock()
        self._is_triggered = False
        self._wake = wake
        self._address = folder / f"{record.number}-{os.urandom(4).hex()}"
        self._inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._inbox.bind(str(self._address))
        control, self._control = os.pipe()
        environ = {**os.environ, "NOTIFY_SOCKET": str(self._address), CONTROL: str(control)}
        # A generation never changes: Python must not write its bytecode there.
        environ |= {
            "WATCHDOG_USEC": str(round(stall_s * 1e6)),
            "PYTHONDONTWRITEBYTECODE": "1",
            SOCKETS: json.dumps(dict(sockets)),
        }
        environ.pop("WATCHDOG_PID", None)
        try:
            # The lock is inherited: it is free when the last process of the deployment has ended.
            # A group of its own: Ctrl-C in the terminal reaches only the supervising process.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(control, lock, *sockets.values()),
                env=environ,
                # Relative paths of what it writes are relative to what outlives it.
                cwd=data,
                process_group=0,
            )
        finally:
            os.close(control)
        for loop in (self._listen, self._await_end):
            run = partial(keep_running, loop, time.sleep)
            threading.Thread(target=run, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    @property
    def is_stalled(self) -> bool:
        """Whether it says so, or has said nothing for so long: a thread that holds the
        interpreter's lock keeps it from saying anything."""
        is_silent = self.is_ready and self._clock() - self._fed_s > self._stall_s
        return self._is_triggered or is_silent

    def hold(self, holds: dict[int, int]) -> None:
        """From now on it uses only these generations."""
        released, self.holds = self.holds, holds
        for number, descriptor in released.items():
            if holds.get(number) != descriptor:
                os.close(descriptor)

    def start(self) -> None:
        """Lets the prepared process run its flow."""
        with suppress(BrokenPipeError):
            os.write(self._control, START)

    def stop(self) -> None:
        """Asks it to drain and save its state."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.is_running:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def close(self) -> None:
        """Ends the process if it has not ended."""
        self.kill()
        self._process.wait()
        os.close(self._control)
        self.hold({})
        with suppress(OSError):
            self._inbox.shutdown(socket.SHUT_RDWR)
        self._inbox.close()
        self._address.unlink(missing_ok=True)

    def _await_end(self) -> None:
        self.exit_code = self._process.wait()
        self._wake()

    def _listen(self) -> None:
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._inbox, 4096, 1)
            except OSError:
                return
            if not message:
                return
            self._receive(dict(_assignments(message)), descriptors)
            self._wake()

    def _receive(self, fields: dict[str, str], descriptors: list[int]) -> None:
        for descriptor in descriptors:
            self.sockets[fields.get("FDNAME", "")] = descriptor
        self.status = fields.get("STATUS", self.status)
        self.is_ready |= fields.get("READY") == "1"
        if "WATCHDOG" in fields or "READY" in fields:
            self._is_triggered = fields.get("WATCHDOG") == "trigger"
            self._fed_s = self._clock()
        if PREPARED in fields:
            with suppress(ValueError):
                self.stop_s = float(fields.get(STOP_S, _DEFAULT_STOP_S))
            self.can_overlap = fields.get(OVERLAPS) == "1"
            self.is_prepared = True


def _assignments(message: bytes) -> list[tuple[str, str]]:
    lines = message.decode(errors="replace").splitlines()
    parts = (line.partition("=") for line in lines)
    return [(name, value) for name, equals, value in parts if equals]


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


@dataclass(frozen=True, slots=True)
class RunOptions:
    command: Callable[[GenerationRecord], list[str]]
    """The command line of the process of a generation."""
    ask: Callable[[int], Statuses]
    """The statuses of the flows in a process, those that do not answer left out."""
    exchange: Callable[[int, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Asks a process to bring its flows to another generation; returns its answer, or raises
    `OSError` or `ValueError`. None: the process is always exchanged."""
    verify: str = "boot"
    """When the files of a generation are compared with their digests: see `Integrity`."""
    health_s: float = 60.0
    stall_s: float = 60.0
    prepare_s: float = 300.0
    start_s: float = 120.0
    lock_wait_s: float = 45.0
    is_lasting: bool = False
    """Whether to go on when no generation can run, because an update may bring one."""


_CHECK_S: Final = 300.0


def generation_command(
    deployment: Deployment,
    settings: DeploymentSettings,
    record: GenerationRecord,
    format: str = "json",
    *,
    is_check: bool = False,
) -> list[str]:
    """`torvyn run` or `torvyn serve` for the project of a generation, with the overrides of its
    deployment; or the command that only checks it."""
    from torvyn._artifact.unpack import is_unpacked

    project = deployment.project(record.number)
    words = [sys.executable, "-m", "torvyn", settings.command]
    if settings.command == "run":
        words += ["--all"] if settings.is_all else [f"flow.{name}" for name in settings.flows]
    words += ["--check"] if is_check else []
    words += ["--artifact" if is_unpacked(project) else "--manifest", str(project)]
    words += ["--trusted"] if record.is_trusted else []
    for option, pairs in (("--config", settings.config), ("--set", settings.settings)):
        words += [word for key, value in pairs.items() for word in (option, f"{key}={value}")]
    # Stored elements and checkpoints stay when the generation goes.
    return [*words, "--set", f"runtime.state_dir={deployment.data}", "--format", format]


def problem_of(
    deployment: Deployment, settings: DeploymentSettings, record: GenerationRecord
) -> str | None:
    """Why its flows cannot be linked; None if they can. In a process of its own: components run
    code when they are loaded."""
    try:
        done = subprocess.run(
            generation_command(deployment, settings, record, is_check=True),
            capture_output=True,
            timeout=_CHECK_S,
            check=False,
            cwd=deployment.data,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    except subprocess.TimeoutExpired:
        return f"it could not be linked within {_CHECK_S:.0f} s"
    if done.returncode == 0:
        return None
    try:
        problems = json.loads(done.stderr)["problems"]
        return "; ".join(each["message"] for each in problems if each["severity"] == "error")
    except (ValueError, KeyError, TypeError):
        return f"the check ended with {done.returncode}"
