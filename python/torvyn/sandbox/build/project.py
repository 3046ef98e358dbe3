"""A guest's project: its folder, its source files and its build output.

A stamp file next to the built component has the digest of the sources, so link can tell whether the
build is outdated without a toolchain.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torvyn._manifest.records import ComponentRecord
from torvyn.errors import ContractError, MissingError, install_hint

ENTRIES: Final = {"c": "component.c", "python": "component.py", "rust": "Cargo.toml"}
"""The main file of each language, which also identifies the language of a folder."""

_SOURCE_SUFFIXES: Final = {
    "c": (".c", ".h"),
    "python": (".py",),
    "rust": (".rs", ".toml", ".lock", ".wit"),
}
_SKIPPED_FOLDERS: Final = {
    "c": {"build"},
    "python": {"build", "tests", "__pycache__"},
    "rust": {"build", "target"},
}
"""Folders that do not belong to the sources."""


@dataclass(frozen=True, slots=True)
class GuestProject:
    """A folder with the sources of a component."""

    name: str
    folder: Path
    language: str
    entry: str | None = None
    """For Python: a file in the folder, or `module:Class`."""

    @property
    def target(self) -> Path:
        return self.folder / "build" / f"{self.name}.wasm"

    @property
    def stamp(self) -> Path:
        """The file with the digests of the component's inputs."""
        return self.target.with_suffix(".json")

    @property
    def source_files(self) -> list[Path]:
        """The files that the author wrote."""
        suffixes, skipped = _SOURCE_SUFFIXES[self.language], _SKIPPED_FOLDERS[self.language]
        files = (path for path in self.folder.rglob("*") if path.suffix in suffixes)
        return sorted(p for p in files if not skipped & set(p.relative_to(self.folder).parts[:-1]))

    @property
    def source_digest(self) -> str:
        digest = hashlib.sha256(repr((self.name, self.entry)).encode())
        for path in self.source_files:
            data = path.read_bytes()
            digest.update(f"{path.relative_to(self.folder)} {len(data)} ".encode() + data)
        return digest.hexdigest()

    @property
    def is_outdated(self) -> bool:
        """Whether the sources have changed since the build."""
        try:
            stamp: Any = json.loads(self.stamp.read_text())
            return stamp.get("sources", "") not in ("", self.source_digest)
        except (OSError, ValueError, AttributeError, KeyError):
            return False


def guest_of(record: ComponentRecord, folder: Path) -> GuestProject:
    """The sources of a declared component in a project's folder."""
    path = folder / record.path
    language = record.language or detect_language(path) or ""
    return GuestProject(record.name, path, language, record.entry)


def is_built(record: ComponentRecord, guest: GuestProject) -> bool:
    """Whether a component needs a build: Python runs in the process by default, and a .wasm file
    is built."""
    if record.path.endswith(".wasm") or guest.language == "wasm":
        return False
    return record.isolation == "wasm" or guest.language != "python"


@dataclass(frozen=True, slots=True)
class ComponentBinary:
    """A WebAssembly component and the name of its world."""

    data: bytes
    world: str


def detect_language(folder: Path) -> str | None:
    """The language of a component's folder, by its main file."""
    for language, entry in ENTRIES.items():
        if (folder / entry).is_file():
            return language
    return None


def display_path(path: Path) -> str:
    """The path, relative if it is below the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def toolchain_missing(guest: GuestProject, tool: str, extra: str) -> MissingError:
    return MissingError(
        "sandbox.toolchain-missing",
        f"building component `{guest.name}` needs `{tool}`, which is not installed",
        hint=f"{install_hint(extra)}; you need it only to build",
    )


def source_missing(guest: GuestProject) -> ContractError:
    *others, last = (f"`{entry}`" for entry in ENTRIES.values())
    entries = f"{', '.join(others)} or {last}"
    return ContractError(
        "sandbox.source-missing",
        f"component `{guest.name}` has no sources in `{display_path(guest.folder)}`",
        hint=f"its folder must contain {entries}",
    )
