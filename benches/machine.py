"""Describes the machine of a measurement. What cannot be read is left out."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def describe() -> dict[str, str]:
    """Processor, usable cores, memory, system, Python, and how busy the machine was."""
    facts = {
        "cpu": _first_value(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "switch interval": f"{sys.getswitchinterval() * 1e3:g} ms",
        "load at start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }
    return {name: value for name, value in facts.items() if value}


def resident_bytes() -> int:
    """The current resident set size of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _memory() -> str:
    kibibytes = _first_value(Path("/proc/meminfo"), "MemTotal")
    return f"{int(kibibytes.split()[0]) / 2**20:.1f} GiB" if kibibytes else ""


def _first_value(file: Path, key: str) -> str:
    if not file.exists():
        return ""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""
