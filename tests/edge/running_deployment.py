"""`torvyn deploy run` in a process of its own, and what a test waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from versioned_gateway import delivered, state_of

LIMIT_S = 30.0


class Running:
    def __init__(self, folder: Path, output: Path, *arguments: str) -> None:
        self.folder, self.output = folder, output
        command = [sys.executable, "-m", "torvyn", "deploy", "run", folder.name]
        command += ["--root", str(folder.parent), "--health-period", "500ms", *arguments]
        self._errors = (folder.parent / f"{time.monotonic_ns()}.log").open("w+")
        runtime = folder.parent / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        self.process = subprocess.Popen(command, stderr=self._errors, env=environ)

    def wait(self, what: str, is_reached: Callable[[], bool]) -> None:
        """Until a condition that another process brings about."""
        until_s = time.monotonic() + LIMIT_S
        while not is_reached():
            assert time.monotonic() < until_s, f"not reached: {what}\n{self.log()}"
            time.sleep(0.02)

    def wait_for_version(self, version: str) -> None:
        """Until that version delivers."""
        self.wait(version, lambda: bool(self.versions()) and self.versions()[-1] == version)

    def wait_until_good(self, number: int) -> None:
        self.wait(f"{number} is good", lambda: number in state_of(self.folder)["good"])  # type: ignore[operator]

    def wait_for_current(self, number: int) -> None:
        self.wait(f"{number} is current", lambda: state_of(self.folder)["current"] == number)

    def versions(self) -> list[str]:
        """The versions that delivered, in their order, each run of one version once."""
        found: list[str] = []
        for _, version in delivered(self.output):
            if not found or found[-1] != version:
                found.append(version)
        return found

    def process_of_flow(self) -> int:
        """The process that runs the current generation, once no other one is left."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.wait("one process", lambda: len(path.read_text().split()) == 1)
        return int(path.read_text())

    def exchange(self) -> dict[str, Any]:
        """How the last generation took its place."""
        found = state_of(self.folder)["exchange"]
        assert isinstance(found, dict)
        return found

    def log(self) -> str:
        return Path(self._errors.name).read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop()
        self._errors.close()


@contextmanager
def running(folder: Path, output: Path, *arguments: str) -> Iterator[Running]:
    made = Running(folder, output, *arguments)
    try:
        yield made
    finally:
        made.close()
