"""A server in a separate process on one core, and its CPU time and memory."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
START_S: Final = 120.0


_USABLE: Final = sorted(os.sched_getaffinity(0))
SERVER_CORE: Final = _USABLE[0]
OTHER_CORE: Final = _USABLE[-1]


def stay_off_the_server() -> None:
    """Keeps this process off the server's core."""
    if SERVER_CORE == OTHER_CORE:
        raise RuntimeError("this benchmark needs two cores: one for the server, one for the client")
    os.sched_setaffinity(0, {OTHER_CORE})


class ServerProcess:
    """A running server. `{port}` in its command is replaced."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process

    def cpu_s(self) -> float:
        """User and system time of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_S

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def running(
    command: Sequence[str],
    core: int,
    *,
    env: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
) -> Iterator[ServerProcess]:
    """Runs the command on that core inside the block, which begins when the port accepts."""
    port = free_port()
    filled = [word.replace("{port}", str(port)) for word in command]
    process = subprocess.Popen(
        ["taskset", "-c", str(core), *filled],
        stdout=log or subprocess.DEVNULL,
        stderr=log or subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )
    try:
        until_open(port, process)
        yield ServerProcess(port, process)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until the process accepts connections; raises if it ends or takes too long."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"{process.args!r} is not listening")
