"""Wasm -> compiled code: from the cache, or made by a child process that has limits of its own.

Hands on a `CompiledComponent`; raises `LinkError` with a `sandbox.*` code for what cannot be one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from torvyn._native import CompiledComponent, SandboxError
from torvyn.errors import LinkError

_CODES: Final = {
    "invalid": "sandbox.invalid",
    "too-large": "sandbox.invalid",
    "core-module": "sandbox.invalid",
    "engine": "sandbox.invalid",
    "role": "sandbox.contract",
    "contract": "sandbox.contract",
    "import": "sandbox.import",
    "cache": "sandbox.cache",
}
_HINTS: Final = {
    "core-module": "make a component of it, with `torvyn build` or with `wasm-tools component new`",
    "role": "it exports one of the interfaces of `wit/`, such as `torvyn:streaming/source@0.1.0`",
    "contract": "build it against the contracts in `wit/`",
    "import": "a guest may import the contracts in `wit/` and the second preview of WASI",
    "cache": "make the folder yours alone (`chmod -R go= FOLDER`), or remove it",
}

SMALL_BYTES: Final = 8 * 1024
"""Smaller files are compiled in this process: at worst it takes two seconds and 10 MiB. The time of
a bomb grows with the cube of its size: one of 32 KiB takes half a minute."""
LARGEST_BYTES: Final = 256 * 1024 * 1024
"""Larger files are not read."""
_BASE_S, _S_PER_MIB = 2, 5
_BASE_BYTES, _BYTES_PER_BYTE = 128 << 20, 64
"""A guest in Python, 18 MiB of wasm, takes 18 s of processor time and 420 MiB."""


def refusal(error: SandboxError, name: str) -> LinkError:
    """What the native sandbox said, as something a person reads."""
    kind, message = error.args
    code = _CODES.get(kind, "sandbox.invalid")
    return LinkError(code, f"component `{name}`: {message}", hint=_HINTS.get(kind))


def default_cache_dir() -> Path:
    """Where compiled code is kept when nothing else is said."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "torvyn" / "compiled"


def compile_component(
    path: Path,
    name: str,
    cache_dir: Path | None = None,
    *,
    counts_fuel: bool = False,
    role: str | None = None,
) -> CompiledComponent:
    """The component in a file; within a process, the same file is compiled once."""
    try:
        stamp = _stamp(path)
        return _compiled(path, stamp, cache_dir or default_cache_dir(), counts_fuel, role)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"component `{name}`: `{path}` cannot be read: {reason}"
        raise LinkError("link.component-missing", message) from error
    except SandboxError as error:
        raise refusal(error, name) from error


def warm(paths: Collection[Path], cache_dir: Path | None = None) -> None:
    """Loads what the cache has, several at a time: of a guest in Python there are 50 MB to hash.

    What it has not is left to `compile_component`, one after the other: compiling takes memory.
    """
    folder = cache_dir or default_cache_dir()
    if len(paths) > 1 and folder.is_dir():
        with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="torvyn-warm") as pool:
            pool.map(partial(_warm, folder), paths)


def _warm(cache_dir: Path, path: Path) -> None:
    # What is wrong with a file is said by whoever needs it.
    with contextlib.suppress(OSError, SandboxError):
        stamp = _stamp(path)
        found = CompiledComponent.load(path.read_bytes(), cache_dir, False, None)
        if found is not None:
            _warmed[path, stamp, cache_dir] = found


_warmed: dict[tuple[Path, tuple[int, ...], Path], CompiledComponent] = {}
"""Loaded, and not asked for yet."""


def _stamp(path: Path) -> tuple[int, ...]:
    facts = path.stat()
    _must_be_readable(facts)
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)


def _must_be_readable(facts: os.stat_result) -> None:
    """A device or a pipe would never end, and what is larger than any component is none."""
    if not stat.S_ISREG(facts.st_mode):
        raise SandboxError("invalid", "it is no file")
    if facts.st_size > LARGEST_BYTES:
        mebibytes = LARGEST_BYTES >> 20
        raise SandboxError("too-large", f"it is larger than {mebibytes} MiB")


@lru_cache(maxsize=64)
def _compiled(
    path: Path, stamp: tuple[int, ...], cache_dir: Path, counts_fuel: bool, role: str | None
) -> CompiledComponent:
    if not counts_fuel and role is None and (ready := _warmed.pop((path, stamp, cache_dir), None)):
        return ready
    wasm = path.read_bytes()
    found = CompiledComponent.load(wasm, cache_dir, counts_fuel, role)
    if found is not None:
        return found
    if len(wasm) > SMALL_BYTES:
        code = _compile_apart(wasm, counts_fuel)
        CompiledComponent.remember(wasm, code, cache_dir, counts_fuel)
    return CompiledComponent(wasm, cache_dir, counts_fuel, role)


def _compile_apart(wasm: bytes, counts_fuel: bool) -> bytes:
    """Compiles in a child whose time and memory grow with the file, so that a bomb harms nobody.

    The child gets the bytes, not the path: what it compiled is what is remembered, whoever writes
    to the file meanwhile.
    """
    time_s = _BASE_S + _S_PER_MIB * len(wasm) // (1 << 20)
    memory_bytes = _BASE_BYTES + _BYTES_PER_BYTE * len(wasm)
    command = [sys.executable, "-m", "torvyn.sandbox.child"]
    arguments = [str(time_s), str(memory_bytes), str(int(counts_fuel))]
    try:
        done = subprocess.run(
            [*command, *arguments], input=wasm, capture_output=True, timeout=4 * time_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise SandboxError("invalid", f"compiling it takes more than {4 * time_s} s") from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode == 2 and said:
        kind, _, message = said[-1].partition(" ")
        raise SandboxError(kind, message)
    took = f"{memory_bytes >> 20} MiB of memory"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        took = f"{time_s} s of processor time"
    raise SandboxError("invalid", f"compiling it takes more than {took}")
