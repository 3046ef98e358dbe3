"""Guests -> components: `build` makes `FOLDER/build/NAME.wasm`, unless it is there already.

Beside the component lies a stamp with the digest of everything that went into it: the sources,
the glue, the contracts and the version of the toolchain.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torvyn import _native
from torvyn.errors import MissingError
from torvyn.sandbox.build import c_guest, python_guest, rust_guest
from torvyn.sandbox.build.project import GuestProject, display_path, source_missing

_LANGUAGES: dict[str, ModuleType] = {"c": c_guest, "python": python_guest, "rust": rust_guest}


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A component on the disk."""

    guest: GuestProject
    path: Path
    world: str
    size_bytes: int
    was_built: bool
    """Whether it was made now, rather than found."""


def build(
    guest: GuestProject,
    *,
    force: bool = False,
    on_start: Callable[[GuestProject], None] = lambda _: None,
) -> BuildResult:
    """Makes the guest's component; `on_start` is called when there is something to do."""
    language = _LANGUAGES.get(guest.language)
    if language is None or not guest.folder.is_dir():
        raise source_missing(guest)
    digest = _digest(guest, language)
    found = None if force else _current(guest, digest)
    if found is not None:
        return found
    on_start(guest)
    written = guest.source_digest
    made = language.make(guest)
    stamp = {"digest": digest, "world": made.world, "written": written}
    _write(guest.target, made.component)
    _write(guest.stamp, json.dumps(stamp).encode())
    return BuildResult(guest, guest.target, made.world, len(made.component), was_built=True)


def _current(guest: GuestProject, digest: str) -> BuildResult | None:
    try:
        stamp: Any = json.loads(guest.stamp.read_text())
        size_bytes = guest.target.stat().st_size
    except (OSError, ValueError):
        return None
    if not isinstance(stamp, dict) or stamp.get("digest") != digest:
        return None
    return BuildResult(guest, guest.target, str(stamp.get("world")), size_bytes, was_built=False)


def _digest(guest: GuestProject, language: ModuleType) -> str:
    digest = hashlib.sha256()
    for part in _inputs(guest, language):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _inputs(guest: GuestProject, language: ModuleType) -> Iterable[bytes]:
    yield repr((guest.name, guest.language, guest.entry)).encode()
    yield language.toolchain(guest).encode()
    for path, text in _native.WasmTools.wit_files():
        yield f"{path}\n{text}".encode()
    for path in language.inputs(guest):
        yield os.path.relpath(path, guest.folder).encode()
        yield path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: a build that is cut off leaves no half a component."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"cannot write {display_path(path)}: {reason}"
        raise MissingError("sandbox.file-unwritable", message) from error
