"""The state of a service, from the properties that systemd reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MiB = 1024 * 1024


def status_fields(unit: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """The state with names and types; None where systemd does not know a value."""
    memory, cpu_ns = _count(properties, "MemoryCurrent"), _count(properties, "CPUUsageNSec")
    return {
        "unit": unit,
        "installed": properties.get("LoadState") == "loaded",
        "active": properties.get("ActiveState", "unknown"),
        "state": properties.get("SubState", "unknown"),
        "enabled": properties.get("UnitFileState") == "enabled",
        "flow": properties.get("StatusText", ""),
        "since": properties.get("ActiveEnterTimestamp") or None,
        "pid": _count(properties, "MainPID") or None,
        "restarts": _count(properties, "NRestarts"),
        "result": properties.get("Result") or None,
        "memory_bytes": memory,
        "cpu_s": None if cpu_ns is None else cpu_ns / 1e9,
    }


def render_status(fields: Mapping[str, Any]) -> str:
    if not fields["installed"]:
        return f"{fields['unit']}: not installed\n"
    since = f" since {fields['since']}" if fields["since"] else ""
    rows = {
        "service": f"{fields['active']} ({fields['state']}){since}",
        "flow": fields["flow"],
        "starts at boot": "yes" if fields["enabled"] else "no",
        "restarts": fields["restarts"],
        "last result": fields["result"],
        "process": fields["pid"],
        "memory": _figure(fields["memory_bytes"], _MiB, "MiB"),
        "CPU time": _figure(fields["cpu_s"], 1, "s"),
    }
    shown = {name: value for name, value in rows.items() if value not in (None, "")}
    width = max(map(len, shown))
    lines = (f"  {name.ljust(width)}  {value}" for name, value in shown.items())
    return "\n".join((fields["unit"], *lines)) + "\n"


def _count(properties: Mapping[str, str], name: str) -> int | None:
    """systemd says `[not set]`, or 2**64 - 1, where it has no value."""
    text = properties.get(name, "")
    return int(text) if text.isdecimal() and int(text) < 2**63 else None


def _figure(value: float | None, scale: float, unit: str) -> str | None:
    return None if value is None else f"{value / scale:.1f} {unit}"
