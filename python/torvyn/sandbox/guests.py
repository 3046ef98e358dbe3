"""Guests: components as their authors wrote them, and what a build makes of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torvyn.errors import ContractError, MissingError

ENTRIES: Final = {"c": "component.c", "python": "component.py"}
"""The file that each language begins with; found in a folder, it names the language."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A component's folder, to be built."""

    name: str
    folder: Path
    language: str
    entry: str | None = None
    """Python: a file of the folder, or `module:Class`."""

    @property
    def target(self) -> Path:
        return self.folder / "build" / f"{self.name}.wasm"


@dataclass(frozen=True, slots=True)
class Made:
    """A component as bytes, with the name of its world."""

    component: bytes
    world: str


def language_of(folder: Path) -> str | None:
    """The language of a component's folder, by the file in it."""
    for language, entry in ENTRIES.items():
        if (folder / entry).is_file():
            return language
    return None


def shown(path: Path) -> str:
    """A path as a person would write it: relative when it is below the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def toolchain_missing(guest: Guest, tool: str, extra: str) -> MissingError:
    return MissingError(
        "sandbox.toolchain-missing",
        f"component `{guest.name}` needs `{tool}` to be built, which is not installed",
        hint=f"pip install 'torvyn[{extra}]'; it is not needed to run what was built",
    )


def source_missing(guest: Guest) -> ContractError:
    wanted = " or ".join(f"`{entry}`" for entry in ENTRIES.values())
    return ContractError(
        "sandbox.source-missing",
        f"component `{guest.name}` has nothing to build in `{shown(guest.folder)}`",
        hint=f"its folder holds {wanted}",
    )
