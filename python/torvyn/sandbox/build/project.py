"""Guests: components as their authors wrote them, and what a build makes of them.

Beside a component lies a stamp that says what it was made of; link reads it without a toolchain.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torvyn.errors import ContractError, MissingError

ENTRIES: Final = {"c": "component.c", "python": "component.py", "rust": "Cargo.toml"}
"""The file that each language begins with; found in a folder, it names the language."""


_WRITTEN: Final = {"c": (".c", ".h"), "python": (".py",), "rust": (".rs", ".toml", ".lock", ".wit")}
_SKIPPED: Final = {
    "c": {"build"},
    "python": {"build", "tests", "__pycache__"},
    "rust": {"build", "target"},
}
"""Folders of a component that are no part of it."""


@dataclass(frozen=True, slots=True)
class GuestProject:
    """A component's folder, to be built."""

    name: str
    folder: Path
    language: str
    entry: str | None = None
    """Python: a file of the folder, or `module:Class`."""

    @property
    def target(self) -> Path:
        return self.folder / "build" / f"{self.name}.wasm"

    @property
    def stamp(self) -> Path:
        """What the component was made of, by digest."""
        return self.target.with_suffix(".json")

    @property
    def source_files(self) -> list[Path]:
        """The files that its author wrote."""
        suffixes, skipped = _WRITTEN[self.language], _SKIPPED[self.language]
        found = (path for path in self.folder.rglob("*") if path.suffix in suffixes)
        return sorted(p for p in found if not skipped & set(p.relative_to(self.folder).parts[:-1]))

    @property
    def source_digest(self) -> str:
        digest = hashlib.sha256(repr((self.name, self.entry)).encode())
        for path in self.source_files:
            data = path.read_bytes()
            digest.update(f"{path.relative_to(self.folder)} {len(data)} ".encode() + data)
        return digest.hexdigest()

    @property
    def is_outdated(self) -> bool:
        """Whether it was built here, of other files than those that are there now."""
        try:
            stamp: Any = json.loads(self.stamp.read_text())
            return stamp.get("written", "") not in ("", self.source_digest)
        except (OSError, ValueError, AttributeError, KeyError):
            return False


@dataclass(frozen=True, slots=True)
class ComponentBinary:
    """A component as bytes, with the name of its world."""

    component: bytes
    world: str


def detect_language(folder: Path) -> str | None:
    """The language of a component's folder, by the file in it."""
    for language, entry in ENTRIES.items():
        if (folder / entry).is_file():
            return language
    return None


def display_path(path: Path) -> str:
    """A path as a person would write it: relative when it is below the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def toolchain_missing(guest: GuestProject, tool: str, extra: str) -> MissingError:
    return MissingError(
        "sandbox.toolchain-missing",
        f"component `{guest.name}` needs `{tool}` to be built, which is not installed",
        hint=f"pip install 'torvyn[{extra}]'; it is not needed to run what was built",
    )


def source_missing(guest: GuestProject) -> ContractError:
    *others, last = (f"`{entry}`" for entry in ENTRIES.values())
    wanted = f"{', '.join(others)} or {last}"
    return ContractError(
        "sandbox.source-missing",
        f"component `{guest.name}` has nothing to build in `{display_path(guest.folder)}`",
        hint=f"its folder holds {wanted}",
    )
