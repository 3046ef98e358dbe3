"""A guest's project: its folder, its source files, its build output, and its WIT.

A stamp file next to the built component has the digest of the sources, so link can tell whether the
build is outdated without a toolchain. The `.wasm` file of a component is its own file, or the
result of a build, made here or packed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torvyn import _native
from torvyn._manifest.records import ComponentRecord
from torvyn._native import NativeError
from torvyn.errors import ContractError, Diagnostic, Location, MissingError, install_hint

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


def wasm_path(record: ComponentRecord, folder: Path, packed_language: str = "") -> Path | None:
    """The `.wasm` file of a sandboxed component; None for one that runs in the process.

    `packed_language` is what torvyn.lock says: the sources, by which the language is detected, are
    not packed.
    """
    path = folder / record.path
    if path.suffix == ".wasm":
        return path
    language = record.language or packed_language or detect_language(path) or "python"
    if language == "wasm":
        found = sorted(path.glob("*.wasm"))
        return found[0] if len(found) == 1 else path / f"{record.name}.wasm"
    if language != "python" or record.isolation == "wasm":
        return path / "build" / f"{record.name}.wasm"
    return None


_STREAMING: Final = "deps/torvyn-streaming/"
_COPIES: Final = ("torvyn-streaming/", f"0.2/{_STREAMING}", f"0.3/{_STREAMING}")
"""Where its files are needed besides, because a folder must resolve alone."""

_LOCATION = re.compile(r"-->\s*(?P<file>.+?):(?P<line>\d+):(?P<column>\d+)")


def wit_files() -> dict[str, str]:
    """The path and text of every file of the built-in packages."""
    files = dict(_native.WasmTools.wit_files())
    shared = [(path, text) for path, text in files.items() if path.startswith(_STREAMING)]
    for copy in _COPIES:
        files |= {copy + path.removeprefix(_STREAMING): text for path, text in shared}
    return files


def check_wit(folders: Iterable[Path]) -> list[Diagnostic]:
    """The errors in the `wit` folders of a project's components, if they have one."""
    errors = []
    for folder in dict.fromkeys(folders):
        path = folder / "wit"
        if path.is_dir() and any(path.glob("*.wit")):
            try:
                _native.WasmTools.wit_worlds(path)
            except NativeError as error:
                errors.append(_diagnostic(path, str(error.args[1])))
    return errors


def _diagnostic(path: Path, output: str) -> Diagnostic:
    place = _LOCATION.search(output)
    location = Location(str(path))
    if place is not None:
        location = Location(place["file"], int(place["line"]), int(place["column"]))
    # Without the drawing of the line, because the diagnostic has a location.
    reason = output.partition("\n")[0].removeprefix(f"failed to parse package: {path}: ")
    return Diagnostic(
        "sandbox.wit-invalid", f"the contracts in `{path}` are not valid: {reason}", location
    )
