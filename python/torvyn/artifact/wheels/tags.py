"""Whether a wheel fits this interpreter and this machine, by the tags in its file name."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from typing import Final

from torvyn.artifact.failures import invalid

_OLD_NAMES: Final = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_GLIBC: Final = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")


@dataclass(frozen=True, slots=True)
class WheelName:
    """The parts of `numpy-2.4.1-cp311-cp311-manylinux_2_28_x86_64.whl`."""

    distribution: str
    """In lower case, with `-`."""
    version: str
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]

    @classmethod
    def parse(cls, file: str) -> WheelName:
        name, _, others = file.removesuffix(".whl").partition("-")
        version, *rest = others.split("-")
        if not file.endswith(".whl") or len(rest) not in (3, 4) or not name:
            raise invalid(f"`{file}` is not the name of a wheel")
        tags = [tuple(part.split(".")) for part in rest[-3:]]
        return cls(re.sub(r"[-_.]+", "-", name).lower(), version, *tags)

    def fits(self, machine: Machine) -> bool:
        return any(
            machine.runs(python, abi) and any(map(machine.loads, self.platforms))
            for python in self.pythons
            for abi in self.abis
        )


@dataclass(frozen=True, slots=True)
class Machine:
    python: tuple[int, int]
    architecture: str
    glibc: tuple[int, int] | None

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.version_info[:2], platform.machine(), _glibc())

    def runs(self, python: str, abi: str) -> bool:
        major, minor = self.python
        own = f"cp{major}{minor}"
        if abi == "abi3":
            match = re.fullmatch(rf"cp{major}(\d+)", python)
            return match is not None and 2 <= int(match[1]) <= minor
        if abi == own:
            return python == own
        generic = {f"py{major}", own, *(f"py{major}{each}" for each in range(minor + 1))}
        return abi == "none" and python in generic

    def loads(self, tag: str) -> bool:
        if tag in ("any", f"linux_{self.architecture}"):
            return True
        match = _GLIBC.fullmatch(tag)
        needed = (int(match[1]), int(match[2])) if match else None
        architecture = match[3] if match else ""
        if match is None:
            name, _, architecture = tag.partition("_")
            needed = _OLD_NAMES.get(name)
        if needed is None or self.glibc is None:
            return False
        return architecture == self.architecture and needed <= self.glibc


def _glibc() -> tuple[int, int] | None:
    """The version of glibc; None on a machine with another C library."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError, AttributeError):
        return None
    match = re.match(r"glibc (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None
