"""Defaults: what the settings give to every flow and node that says nothing of its own.

A program that builds many flows has one `Settings` for all of them, so the last answer is kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torvyn.link.plan import RuntimePlan
from torvyn.manifest import Settings


@dataclass(frozen=True, slots=True)
class Defaults:
    settings: Settings
    limits: Mapping[str, Any]
    """`max_memory`, `call_timeout` and `init_timeout` of nodes."""
    init_is_default: bool
    """Nobody has set `init_timeout`: kinds of components may have one of their own."""
    runtime: RuntimePlan


_last: Defaults | None = None


def defaults_of(settings: Settings) -> Defaults:
    global _last
    known = _last
    if known is None or known.settings is not settings:
        known = _last = _read(settings)
    return known


def _read(settings: Settings) -> Defaults:
    limits = {
        "max_memory": settings["runtime.max_memory_per_component"],
        "call_timeout": settings["runtime.call_timeout"],
        "init_timeout": settings["runtime.init_timeout"],
    }
    runtime = RuntimePlan(
        worker_threads=settings["runtime.worker_threads"],
        turn_elements=settings["runtime.turn_elements"],
        turn_time_s=settings["runtime.turn_time"],
        teardown_timeout_s=settings["runtime.teardown_timeout"],
        drain_timeout_s=settings["runtime.drain_timeout"],
    )
    init_is_default = settings.values["runtime.init_timeout"].origin == "default"
    return Defaults(settings, limits, init_is_default, runtime)


def audit_file(settings: Settings, folder: Path) -> str:
    """Where the audit is written, wherever the process goes later."""
    return _absolute(os.getcwd(), str(folder), settings["security.audit_file"])


@lru_cache
def _absolute(current: str, folder: str, file: str) -> str:
    return str(Path(current, folder, file))
