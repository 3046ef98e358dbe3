"""Warns of flows that may use more memory than the control group of this process allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torvyn._io.resources import read_resources

if TYPE_CHECKING:
    from torvyn._link.plan import Plan
    from torvyn.errors import Diagnostic


def memory_warnings(*processes: Sequence[Plan]) -> list[Diagnostic]:
    """One warning per process whose flows do not fit. Without a control group there is no warning:
    swap and other processes decide."""
    from torvyn._link.plan_checks import memory_warning

    limit_bytes = read_resources().limits.memory_bytes
    if limit_bytes is None:
        return []
    found = (memory_warning(plans, limit_bytes) for plans in processes)
    return [warning for warning in found if warning is not None]
