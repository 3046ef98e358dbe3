"""Processes that outlive the command that started them: whether one still runs, and how to end it.

The id of a process that has ended is given to another one. A process is therefore remembered with
the time at which it started, and on Linux a signal goes through a file descriptor of the process,
so that it never hits another one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from torvyn._io.resources import boot_id

_PROC: Final = Path("/proc")
_POLL_S: Final = 0.02
_KILL_WAIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process that leads a session of its own; the processes that it starts are its members."""

    pid: int
    started: str
    """When it started, in a form that no other process with this id has."""

    @classmethod
    def of(cls, pid: int) -> ProcessRecord:
        """Of a process that runs; raises `ProcessLookupError` if there is none."""
        started = _start_time(pid)
        if started is None:
            raise ProcessLookupError(pid)
        return cls(pid, started)

    @property
    def is_running(self) -> bool:
        return not _has_ended(self.pid) and _start_time(self.pid) == self.started

    def members(self) -> list[int]:
        """The processes of its session, also those that outlived it."""
        # The id of a session is not given to another process before the last member has ended.
        if _start_time(self.pid) not in (None, self.started) or not self._is_of_this_boot():
            return []
        sessions = [pid for pid, session in _sessions() if session == self.pid]
        return [pid for pid in sessions if not _has_ended(pid)]

    def resident_bytes(self) -> int:
        """The memory of the session; what its processes share counts once."""
        return sum(map(_resident_bytes, self.members()))

    def end(self, grace_s: float) -> bool:
        """Asks the process to end, then kills what is left of its session. Returns whether all of
        it has ended."""
        _send(self.pid, signal.SIGTERM, lambda: self.is_running)
        _wait_until(lambda: not self.is_running, grace_s)
        for pid in self.members():
            _send(pid, signal.SIGKILL, partial(self._has_member, pid))
        return _wait_until(lambda: not self.members(), _KILL_WAIT_S)

    def _has_member(self, pid: int) -> bool:
        return pid in self.members()

    def _is_of_this_boot(self) -> bool:
        return self.started.partition(" ")[0] == boot_id()


def _send(pid: int, number: signal.Signals, is_meant: Callable[[], bool]) -> None:
    """Sends a signal if the process is still the one that is meant."""
    with suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            if is_meant():
                os.kill(pid, number)
            return
        descriptor = os.pidfd_open(pid)
        try:
            if is_meant():
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _wait_until(is_done: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not is_done():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _start_time(pid: int) -> str | None:
    """The boot and the time since then at which a process started; None without such a process."""
    fields = _stat(pid)
    if fields:
        return f"{boot_id()} {fields[19]}"
    return None if _PROC.joinpath("stat").exists() else _ps("lstart=", "-p", str(pid)) or None


def _has_ended(pid: int) -> bool:
    """Whether it only waits for its parent to ask how it ended; nothing else of it is left."""
    fields = _stat(pid)
    return bool(fields) and fields[0] in "ZX"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold spaces and parentheses."""
    try:
        return _PROC.joinpath(str(pid), "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _sessions() -> Iterator[tuple[int, int]]:
    """Processes and their sessions; without /proc their groups, which are the same at first."""
    if not _PROC.joinpath("stat").exists():
        for line in _ps("pid=,pgid=", "-ax").splitlines():
            pid, session = line.split()
            yield int(pid), int(session)
        return
    for path in _PROC.iterdir():
        if path.name.isdecimal() and (fields := _stat(int(path.name))):
            yield int(path.name), int(fields[3])


def _resident_bytes(pid: int) -> int:
    try:
        lines = _PROC.joinpath(str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return int(_ps("rss=", "-p", str(pid)) or 0) * 1024
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _ps(columns: str, *which: str) -> str:
    try:
        done = subprocess.run(["ps", *which, "-o", columns], capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace").strip()
