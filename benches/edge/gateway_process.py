"""A gateway under test: how it is started, killed and measured."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benches.edge.collector import Collector
from benches.edge.publisher import Publisher
from benches.edge.readings import WARM_UP, now_us

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
READY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway runs: its folder, and what it connects."""

    folder: Path
    broker_port: int
    collector_port: int


@dataclass(frozen=True, slots=True)
class Launch:
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    after_first_start: Callable[[], None] = lambda: None
    """Configures a gateway that is configured while it runs."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One gateway in one configuration: a column of the results."""

    name: str
    version: str
    configure: Callable[[Place], Launch]
    """Writes the configuration into the folder."""
    is_durable: str = "yes"
    """What its buffer survives, in words."""


class GatewayProcess:
    """A gateway in a folder; it may be killed and started again there."""

    def __init__(self, peer: Peer, place: Place) -> None:
        self.peer = peer
        self.place = place
        self._launch = peer.configure(place)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = (place.folder / "gateway.log").open("ab")

    def start(self) -> None:
        self._process = subprocess.Popen(
            list(self._launch.command),
            cwd=self.place.folder,
            env={**os.environ, **self._launch.environment},
            stdout=self._log,
            stderr=self._log,
        )

    def start_and_warm_up(self, collector: Collector) -> None:
        """Start it the first time, and wait until a reading has passed through."""
        self.start()
        self._launch.after_first_start()
        publisher = Publisher(self.place.broker_port)
        until = time.monotonic() + READY_S
        number = WARM_UP
        while not collector.is_warm():
            if time.monotonic() > until or self._exited():
                raise RuntimeError(f"{self.peer.name} does not deliver:\n{self.log_tail()}")
            publisher.send(number, [now_us()])
            number += 1
            time.sleep(0.1)
        publisher.finish()
        collector.forget()

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it does not end within ten seconds."""
        if self._process is None or self._exited():
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def close(self) -> None:
        self.stop()
        self._log.close()

    def cpu_s(self) -> float:
        """User and system time of all its threads."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_S

    def memory_mib(self, name: str = "VmRSS") -> float:
        """`VmRSS` now, `VmHWM` at its peak."""
        line = next(line for line in self._proc("status").splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1024

    def written_bytes(self) -> int:
        """What it caused to be sent to the storage device."""
        line = next(
            line for line in self._proc("io").splitlines() if line.startswith("write_bytes")
        )
        return int(line.split()[1])

    def log_tail(self) -> str:
        return (self.place.folder / "gateway.log").read_text(errors="replace")[-2000:]

    def _exited(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _proc(self, name: str) -> str:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/{name}").read_text()
