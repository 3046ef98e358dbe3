"""Compiled code in an artifact, for an engine and a target that its file name says.

    build/guard.wasm
    build/guard.aarch64-linux.1f6d0c5e8a9b3c47.cwasm

Such code is not checked when it is loaded, so it is used only from an artifact that a trusted key
has signed, or that was packed here. Otherwise the `.wasm` file beside it is compiled.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from torvyn._io import native_parts
from torvyn.errors import UsageError

SUFFIX: Final = ".cwasm"
TRIPLES: Final = {
    "x86_64-linux": "x86_64-unknown-linux-gnu",
    "aarch64-linux": "aarch64-unknown-linux-gnu",
}
_ID_DIGITS: Final = 16


def host_target() -> str:
    """The target of this machine."""
    return f"{platform.machine()}-{sys.platform}"


def check_target(target: str) -> str:
    if target not in TRIPLES:
        known = ", ".join(TRIPLES)
        message = f"`{target}` is not a target that code can be compiled for"
        raise UsageError("artifact.bad-target", message, hint=f"the targets are {known}")
    return target


def check_compiler(target: str) -> None:
    """Raises an error if this build cannot compile code for the target."""
    if check_target(target) != host_target():
        native_parts.require("cross")


def code_path(wasm: str, target: str) -> str:
    """The path of the code for a `.wasm` file in an artifact, made by the engine of this build."""
    return f"{wasm.removesuffix('.wasm')}.{target}.{_engine_id(target)}{SUFFIX}"


def compile_for(wasm: bytes, target: str) -> bytes:
    """Code for every machine of a target."""
    from torvyn._sandbox.compiler import precompile

    return precompile(wasm, False, TRIPLES[target])


def fitting_code(folder: Path, files: Iterable[str]) -> Iterator[tuple[Path, Path]]:
    """The `.wasm` files of an unpacked artifact that have code for this machine and this build, and
    that code."""
    available = {path for path in files if path.endswith(SUFFIX)}
    target = host_target()
    if not available or target not in TRIPLES:
        return
    for wasm in files:
        if wasm.endswith(".wasm") and (code := code_path(wasm, target)) in available:
            yield folder / wasm, folder / code


def _engine_id(target: str) -> str:
    from torvyn._native import CompiledComponent

    return CompiledComponent.engine_id(TRIPLES[target])[:_ID_DIGITS]
