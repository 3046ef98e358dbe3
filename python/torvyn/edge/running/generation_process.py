"""The process of one generation. It first loads everything and waits; then it is told to start.

It sends the messages that systemd defines, and one more, when it is prepared. When the process that
started it is gone, a pipe closes and it stops, so that no generation runs without supervision.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from torvyn._io.supervision import CONTROL, OVERLAPS, PREPARED, STOP_S
from torvyn.components.restart import keep_running
from torvyn.edge.generations.records import GenerationRecord
from torvyn.transport.listener.handed_sockets import VARIABLE as SOCKETS

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
