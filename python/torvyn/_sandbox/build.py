"""Builds guests: `build` writes `FOLDER/build/NAME.wasm`, unless it is up to date.

A stamp file next to the component has the digest of all its inputs: the sources, the glue code, the
contracts and the version of the toolchain.
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
from torvyn._io.files import write_atomically
from torvyn._sandbox import c_guest, python_guest, rust_guest
from torvyn._sandbox.project import GuestProject, display_path, source_missing
from torvyn.errors import MissingError, os_reason

_LANGUAGES: dict[str, ModuleType] = {"c": c_guest, "python": python_guest, "rust": rust_guest}


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A component file."""

    guest: GuestProject
    path: Path
    world: str
    size_bytes: int
    was_built: bool
    """False if it was up to date."""


def build(
    guest: GuestProject,
    *,
    force: bool = False,
    on_start: Callable[[GuestProject], None] = lambda _: None,
) -> BuildResult:
    """Builds the guest's component; calls `on_start` if it is not up to date."""
    language = _LANGUAGES.get(guest.language)
    if language is None or not guest.folder.is_dir():
        raise source_missing(guest)
    digest = _digest(guest, language)
    current = None if force else _current(guest, digest)
    if current is not None:
        return current
    on_start(guest)
    source_digest = guest.source_digest
    binary = language.build_component(guest)
    stamp = {
        "digest": digest,
        "world": binary.world,
        "sources": source_digest,
        "toolchain": language.toolchain(guest),
    }
    _write(guest.target, binary.data)
    _write(guest.stamp, json.dumps(stamp).encode())
    return BuildResult(guest, guest.target, binary.world, len(binary.data), was_built=True)


def build_or_reuse(
    guest: GuestProject, *, on_start: Callable[[GuestProject], None] = lambda _: None
) -> Path:
    """The component of a guest. A build that fits the sources is used where the tools that made it
    are missing."""
    try:
        return build(guest, on_start=on_start).path
    except MissingError as error:
        is_usable = guest.stamp.is_file() and guest.target.is_file() and not guest.is_outdated
        if error.code == "sandbox.toolchain-missing" and is_usable:
            return guest.target
        raise


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
    """Writes atomically: an interrupted build leaves no partial component."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data, is_durable=False)
    except OSError as error:
        reason = os_reason(error)
        message = f"cannot write {display_path(path)}: {reason}"
        raise MissingError("sandbox.file-unwritable", message) from error
