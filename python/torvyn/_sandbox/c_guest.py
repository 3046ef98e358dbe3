"""Guests in C: zig compiles them with the glue code in `c/`. No other tool is needed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from torvyn import _native
from torvyn._io.files import writable_folder
from torvyn._sandbox.project import (
    ComponentBinary,
    GuestProject,
    display_path,
    source_missing,
    toolchain_missing,
)
from torvyn.errors import ContractError, Diagnostic, Location

GLUE: Final = Path(__file__).parent / "c"

STACK_BYTES: Final = 64 * 1024
"""Small, so that a guest fits in 1 MiB. It is first in memory, so that an overflow traps."""

_FLAGS: Final = (
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wl,-z,stack-size=" + str(STACK_BYTES),
)

_ERROR_LINE: Final = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.*)$",
    re.MULTILINE,
)

ROLES: Final = {
    "data-source": "TORVYN_SOURCE",
    "polled-data-source": "TORVYN_POLLED_SOURCE",
    "managed-transform": "TORVYN_PROCESSOR",
    "content-filter": "TORVYN_FILTER",
    "content-guard": "TORVYN_GUARD",
    "content-router": "TORVYN_ROUTER",
    "stream-aggregator": "TORVYN_AGGREGATOR",
    "data-sink": "TORVYN_SINK",
}
"""World -> the macro that the component's file defines."""


def toolchain(guest: GuestProject) -> str:
    if importlib.util.find_spec("ziglang") is None:
        raise toolchain_missing(guest, "ziglang", "c")
    return f"ziglang {importlib.metadata.version('ziglang')} {' '.join(_FLAGS)}"


def inputs(guest: GuestProject) -> list[Path]:
    """Every file that can affect the component."""
    return [*sorted(GLUE.iterdir()), *guest.source_files]


def build_component(guest: GuestProject) -> ComponentBinary:
    sources = [path for path in guest.source_files if path.suffix == ".c"]
    if not sources:
        raise source_missing(guest)
    try:
        component, world = _native.WasmTools.encode(_compile(guest, sources))
    except _native.NativeError as error:
        raise _encode_error(guest, error) from error
    return ComponentBinary(component, world)


def _compile(guest: GuestProject, sources: Sequence[Path]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
        module = Path(folder) / "module.wasm"
        files = [*sorted(GLUE.glob("*.c")), *sources]
        command = [sys.executable, "-m", "ziglang", "cc", *_FLAGS, "-I", str(GLUE)]
        # Keep local paths out of the component.
        command += [f"-ffile-prefix-map={guest.folder.resolve()}=.", "-o", str(module)]
        done = subprocess.run(
            [*command, *(str(path.resolve()) for path in files)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=_environment(),
        )
        if done.returncode != 0 or not module.is_file():
            raise _compile_errors(guest, done.stderr)
        return module.read_bytes()


def _environment() -> dict[str, str]:
    """zig keeps what it has compiled, such as the C library, in the user's cache. Where that cannot
    be written, as in many containers, it is kept among the temporary files."""
    variables = {"NO_COLOR": "1"}
    if "ZIG_GLOBAL_CACHE_DIR" not in os.environ:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        variables["ZIG_GLOBAL_CACHE_DIR"] = str(writable_folder(Path(cache, "zig"), "torvyn-zig"))
    return {**os.environ, **variables}


def _compile_errors(guest: GuestProject, text: str) -> ContractError:
    """The compiler's errors with their locations."""
    errors = [
        Diagnostic("sandbox.compile-failed", match["message"], _location(match))
        for match in _ERROR_LINE.finditer(text)
    ]
    if errors:
        return ContractError(errors[0].code, errors[0].message, diagnostics=errors)
    undefined = re.findall(r"undefined symbol: (\w+)", text)
    if undefined:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(undefined))
        message = f"component `{guest.name}` does not define {names}"
        hint = "the role that the component defines needs it, or the component calls it"
        return ContractError("sandbox.compile-failed", message, hint=hint)
    reason = text.strip() or "the compiler gave no reason"
    message = f"cannot compile component `{guest.name}`: {reason}"
    return ContractError("sandbox.compile-failed", message)


def _location(match: re.Match[str]) -> Location:
    return Location(display_path(Path(match["file"])), int(match["line"]), int(match["column"]))


def _encode_error(guest: GuestProject, error: _native.NativeError) -> ContractError:
    kind, reason, names = error.args
    if kind == "no-world":
        roles = ", ".join(f"`{role}`" for role in ROLES.values())
        many = f"its exports belong to several roles: {', '.join(names)}"
        return ContractError(
            "sandbox.no-role",
            f"component `{guest.name}` has no role" if not names else f"`{guest.name}`: {many}",
            location=Location(display_path(guest.folder / "component.c")),
            hint=f"define exactly one of {roles} before `#include <torvyn.h>`, in one file",
        )
    hint = None
    if "buffer-allocator" in reason:
        hint = f"a {ROLES[names[0]].removeprefix('TORVYN_').lower()} cannot emit elements"
    message = f"component `{guest.name}` does not match its role: {reason}"
    return ContractError("sandbox.unfit", message, hint=hint)
