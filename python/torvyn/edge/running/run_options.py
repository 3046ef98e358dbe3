"""How a deployment is run: its commands, and its time limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torvyn.edge.generations import GenerationRecord
from torvyn.edge.running.trial import Statuses


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
