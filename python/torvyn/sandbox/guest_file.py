"""Where the `.wasm` file of a component is: its own file, or the result of a build, made here or
packed."""

from __future__ import annotations

import os
from pathlib import Path

from torvyn._manifest.records import ComponentRecord


def wasm_path(record: ComponentRecord, folder: Path, packed_language: str = "") -> Path | None:
    """The `.wasm` file of a sandboxed component; None for one that runs in the process.

    `packed_language` is what torvyn.lock says: the sources, by which the language is detected, are
    not packed.
    """
    path = folder / record.path
    if path.suffix == ".wasm":
        return path
    language = record.language or packed_language or detect_language(path)
    if language == "wasm":
        found = sorted(path.glob("*.wasm"))
        return found[0] if len(found) == 1 else path / f"{record.name}.wasm"
    if language != "python" or record.isolation == "wasm":
        return path / "build" / f"{record.name}.wasm"
    return None


def detect_language(folder: Path) -> str:
    """The language, detected as in `torvyn.sandbox.build.project`, which loads slowly."""
    entries = (("c", "component.c"), ("python", "component.py"), ("rust", "Cargo.toml"))
    found = (language for language, entry in entries if os.path.isfile(folder / entry))
    return next(found, "python")
