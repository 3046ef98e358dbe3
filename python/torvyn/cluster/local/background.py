"""Starts a process that outlives the command, and waits until it is ready."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from torvyn._io.process_record import ProcessRecord
from torvyn.errors import ClusterError

_POLL_S: Final = 0.02
_LAST_LINES: Final = 5
_LAST_BYTES: Final = 16_384
_SIGNS_OF_FAILURE: Final = ("[FTL]", "[ERR]", "Error", "error:", "nats-server:")


class BackgroundProcess:
    """Leads a session of its own, so that Ctrl-C in the terminal does not reach it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._log = log
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _set_aside(log)
        with log.open("a") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=dict(environment or os.environ),
                start_new_session=True,
            )
        self.record = ProcessRecord.of(self._popen.pid)

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Raises `ClusterError` if the process ends first, or is not ready in time."""
        deadline_s = time.monotonic() + timeout_s
        while not is_ready():
            if self._popen.poll() is not None:
                raise self._failed(f"has ended with exit code {self._popen.returncode}")
            if time.monotonic() > deadline_s:
                raise self._failed(f"was not ready after {timeout_s:.0f} s")
            time.sleep(_POLL_S)
        # It outlives this object, which would warn that nobody waits for its end.
        self._popen.returncode = 0

    def _failed(self, what: str) -> ClusterError:
        reason = last_words(self._log)
        return ClusterError(
            "cluster.start-failed",
            f"{self.name} {what}" + (f": {reason}" if reason else ""),
            hint=f"its log is {self._log}",
        )


def _set_aside(log: Path) -> None:
    """Keeps the log of the process before: it may say why that one ended."""
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".old.log"))


def last_words(log: Path) -> str:
    """The last lines of a log, of those that say what failed if there are any."""
    try:
        text = log.read_bytes()[-_LAST_BYTES:].decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    failures = [line for line in lines if any(sign in line for sign in _SIGNS_OF_FAILURE)]
    return "\n".join((failures or lines)[-_LAST_LINES:])
