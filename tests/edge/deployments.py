"""Deployments for tests: small projects as generations, and crashes between any two steps."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

from torvyn._deploy.deployment import Deployment
from torvyn._deploy.disk import Disk
from torvyn._deploy.generation_state import GenerationRecord

MANIFEST = '[torvyn]\nname = "gateway"\nversion = "{0}"\ncontract_version = "0.1.0"\n'


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def add(deployment: Deployment, number: int, version: int | None = None) -> GenerationRecord:
    """Adds a project whose version is the number."""

    def fill(folder: Path) -> None:
        folder.mkdir()
        (folder / "Torvyn.toml").write_text(MANIFEST.format(number))

    return deployment.add(fill, digest(number), "test", version=version)


def with_fallback(folder: Path) -> Deployment:
    """A deployment whose generation 2 is current and good, and 1 its fallback."""
    deployment = Deployment(folder)
    for number in (1, 2):
        add(deployment, number)
        deployment.activate(number)
        deployment.change(lambda state, records, n=number: state.mark_good(n))
    return deployment


def steps_of(operation: Callable[[Deployment], object], folder: Path) -> int:
    """How many steps the operation has."""
    steps: list[str] = []
    operation(Deployment(with_fallback(folder).folder, Disk(steps.append)))
    return len(steps)


def killed_at(step: int, operation: Callable[[Deployment], object], folder: Path) -> bool:
    """Runs the operation in a process that kills itself before a step; whether it did."""
    pid = os.fork()
    if pid == 0:
        try:
            operation(Deployment(folder, Disk(_at(step, _kill))))
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def full_at(step: int, operation: Callable[[Deployment], object], folder: Path) -> None:
    """Runs the operation on a disk that is full from a step on."""
    operation(Deployment(folder, Disk(_at(step, _full))))


def _at(step: int, action: Callable[[], None]) -> Callable[[str], None]:
    count = 0

    def on_step(name: str) -> None:
        nonlocal count
        count += 1
        if count >= step:
            action()

    return on_step


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
