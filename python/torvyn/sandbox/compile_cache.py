"""Wasm -> compiled code: from the cache, or made by the compiler's process, which has limits.

Hands on a `CompiledComponent`; raises `LinkError` with a `sandbox.*` code for what cannot be one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from torvyn._native import CompiledComponent, NativeError
from torvyn.errors import LinkError
from torvyn.sandbox.compiler_client import precompile, reuse_process

logger = logging.getLogger("torvyn.sandbox")

_CODES: Final = {
    "invalid": "sandbox.invalid",
    "too-large": "sandbox.invalid",
    "too-complex": "sandbox.too-complex",
    "too-costly": "sandbox.too-complex",
    "core-module": "sandbox.invalid",
    "engine": "sandbox.invalid",
    "role": "sandbox.contract",
    "contract": "sandbox.contract",
    "import": "sandbox.import",
}
_HINTS: Final = {
    "too-complex": "instantiate fewer components and modules inside it",
    "too-costly": "build it with optimisation and in smaller functions, or split it in two",
    "core-module": "make a component of it, with `torvyn build` or with `wasm-tools component new`",
    "role": "it exports one of the interfaces of `wit/`, such as `torvyn:streaming/source@0.1.0`",
    "contract": "build it against the contracts in `wit/`",
    "import": "a guest may import the contracts in `wit/` and the second preview of WASI",
}

LARGEST_BYTES: Final = 256 * 1024 * 1024
"""Larger files are not read."""


def to_link_error(error: NativeError, name: str) -> LinkError:
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
    except NativeError as error:
        raise to_link_error(error, name) from error


def preload(paths: Collection[Path], cache_dir: Path | None = None) -> None:
    """Loads what the cache has, several at a time: of a guest in Python there are 50 MB to hash.

    What it has not is compiled, one after the other, as compiling takes memory.
    """
    folder = cache_dir or default_cache_dir()
    if len(paths) < 2:
        return
    if folder.is_dir():
        with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="torvyn-warm") as pool:
            pool.map(partial(_warm, folder), paths)
    with reuse_process():
        for path in paths:
            # What is wrong with a file is said by whoever needs it.
            with contextlib.suppress(OSError, NativeError):
                _compiled(path, _stamp(path), folder, False, None)


def _warm(cache_dir: Path, path: Path) -> None:
    # What is wrong with a file is said by whoever needs it.
    with contextlib.suppress(OSError, NativeError):
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
        raise NativeError("invalid", "it is no file")
    if facts.st_size > LARGEST_BYTES:
        mebibytes = LARGEST_BYTES >> 20
        raise NativeError("too-large", f"it is larger than {mebibytes} MiB")


@lru_cache(maxsize=64)
def _compiled(
    path: Path, stamp: tuple[int, ...], cache_dir: Path, counts_fuel: bool, role: str | None
) -> CompiledComponent:
    if not counts_fuel and role is None and (ready := _warmed.pop((path, stamp, cache_dir), None)):
        return ready
    wasm = path.read_bytes()
    found = _load(wasm, cache_dir, counts_fuel, role)
    if found is not None:
        return found
    # The compiler gets the bytes, not the path: what it compiled is what is stored, whoever writes
    # to the file meanwhile.
    code = precompile(wasm, counts_fuel)
    try:
        CompiledComponent.remember(wasm, code, cache_dir, counts_fuel)
    except NativeError as error:
        _warn_unusable(cache_dir, error)
    return CompiledComponent(code, counts_fuel, role)


def _load(
    wasm: bytes, cache_dir: Path, counts_fuel: bool, role: str | None
) -> CompiledComponent | None:
    """The component from the cache; a cache that cannot be read has nothing."""
    try:
        return CompiledComponent.load(wasm, cache_dir, counts_fuel, role)
    except NativeError as error:
        _warn_unusable(cache_dir, error)
        return None


_unusable: Final[set[Path]] = set()
"""Caches that somebody was warned of."""


def _warn_unusable(cache_dir: Path, error: NativeError) -> None:
    """Says once that a cache is not used; raises what has nothing to do with it."""
    kind, message = error.args
    if kind != "cache":
        raise error
    if cache_dir in _unusable:
        return
    _unusable.add(cache_dir)
    logger.warning(
        "compiled components are not kept in `%s`, so each start compiles them again: %s; "
        "make the folder writable by you and by nobody else, or remove it, or set `cache_dir`",
        cache_dir,
        message.removeprefix("the cache cannot be used: "),
        extra={"event": "cache.unusable"},
    )
