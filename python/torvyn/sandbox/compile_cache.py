"""Compiles `.wasm` files, with a cache. The compiler runs in a process with resource limits.

Returns a `CompiledComponent`; raises `LinkError` with a `sandbox.*` code for an invalid file.
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
from typing import TYPE_CHECKING, Final

from torvyn import _native
from torvyn._io.resources import allowed_cpus
from torvyn._native import NativeError
from torvyn.errors import LinkError, os_reason
from torvyn.sandbox.compiler_client import precompile, reuse_process

if TYPE_CHECKING:
    from torvyn._native import CompiledComponent

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
    "too-complex": "use fewer nested components and modules",
    "too-costly": "build it with optimizations, with smaller functions, or split it in two",
    "core-module": "build a component with `torvyn build` or `wasm-tools component new`",
    "role": "export one of the interfaces in `wit/`, such as `torvyn:streaming/source@0.1.0`",
    "contract": "build it against the contracts in `wit/`",
    "import": "a guest may import the contracts in `wit/` and WASI preview 2",
}

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""Larger files are rejected unread."""


def to_link_error(error: NativeError, name: str) -> LinkError:
    """The native sandbox's error, with a code and a hint."""
    kind, message = error.args
    code = _CODES.get(kind, "sandbox.invalid")
    return LinkError(code, f"component `{name}`: {message}", hint=_HINTS.get(kind))


def default_cache_dir() -> Path:
    """The default folder for compiled code."""
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
    """The component in a file. A process compiles the same file once."""
    try:
        stamp = _stamp(path)
        return _compiled(path, stamp, cache_dir or default_cache_dir(), counts_fuel, role)
    except OSError as error:
        reason = os_reason(error)
        message = f"component `{name}`: cannot read `{path}`: {reason}"
        raise LinkError("link.component-missing", message) from error
    except NativeError as error:
        raise to_link_error(error, name) from error


def preload(paths: Collection[Path], cache_dir: Path | None = None) -> None:
    """Loads cached components in parallel: hashing a Python guest means reading 50 MB.

    Compiles the others one after the other, because compiling takes memory.
    """
    folder = cache_dir or default_cache_dir()
    if len(paths) < 2:
        return
    if folder.is_dir():
        with ThreadPoolExecutor(allowed_cpus(), thread_name_prefix="torvyn-preload") as pool:
            pool.map(partial(_preload, folder), paths)
    with reuse_process():
        for path in paths:
            # The component that needs the file reports its error.
            with contextlib.suppress(OSError, NativeError):
                _compiled(path, _stamp(path), folder, False, None)


def _preload(cache_dir: Path, path: Path) -> None:
    # The component that needs the file reports its error.
    with contextlib.suppress(OSError, NativeError):
        key = (path, _stamp(path), cache_dir)
        if key in _used or path.resolve() in _precompiled:
            return
        compiled = _native.CompiledComponent.load(path.read_bytes(), cache_dir, False, None)
        if compiled is not None:
            _preloaded[key] = compiled


_precompiled: dict[Path, Path] = {}
"""`.wasm` files -> compiled code that came with them."""


def use_precompiled(wasm: Path, code: Path) -> None:
    """Uses compiled code that came with a component. Nothing checks it: call this only for code of
    an author whom the user trusts."""
    _precompiled[wasm.resolve()] = code


_preloaded: dict[tuple[Path, tuple[int, ...], Path], CompiledComponent] = {}
"""Loaded and not used yet."""
_used: set[tuple[Path, tuple[int, ...], Path]] = set()
"""Used by a flow of this process, which keeps it: the next flow shares its code."""


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    _check_file(status)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _check_file(status: os.stat_result) -> None:
    """Rejects devices and pipes, which may never end, and files larger than any component."""
    if not stat.S_ISREG(status.st_mode):
        raise NativeError("invalid", "it is not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        mebibytes = MAX_FILE_BYTES >> 20
        raise NativeError("too-large", f"it is larger than {mebibytes} MiB")


@lru_cache(maxsize=64)
def _compiled(
    path: Path, stamp: tuple[int, ...], cache_dir: Path, counts_fuel: bool, role: str | None
) -> CompiledComponent:
    if not counts_fuel and role is None:
        _used.add((path, stamp, cache_dir))
        if ready := _preloaded.pop((path, stamp, cache_dir), None):
            return ready
    if not counts_fuel and (ready := _load_precompiled(path, role)):
        return ready
    wasm = path.read_bytes()
    cached = _load(wasm, cache_dir, counts_fuel, role)
    if cached is not None:
        return cached
    # The compiler gets the bytes, not the path: the file may change meanwhile.
    code = precompile(wasm, counts_fuel)
    try:
        _native.CompiledComponent.remember(wasm, code, cache_dir, counts_fuel)
    except NativeError as error:
        _warn_unusable(cache_dir, error)
    return _native.CompiledComponent(code, counts_fuel, role)


def _load_precompiled(path: Path, role: str | None) -> CompiledComponent | None:
    """The code that came with the component; None if there is none, or if it does not fit."""
    code = _precompiled.get(path.resolve())
    if code is None:
        return None
    try:
        return _native.CompiledComponent(code.read_bytes(), False, role)
    except (OSError, NativeError) as error:
        logger.warning("the precompiled code `%s` cannot be used: %s", code, error)
        return None


def _load(
    wasm: bytes, cache_dir: Path, counts_fuel: bool, role: str | None
) -> CompiledComponent | None:
    """The component from the cache; None if the cache does not have it or cannot be read."""
    try:
        return _native.CompiledComponent.load(wasm, cache_dir, counts_fuel, role)
    except NativeError as error:
        _warn_unusable(cache_dir, error)
        return None


_warned: Final[set[Path]] = set()
"""The caches that a warning was logged for."""


def _warn_unusable(cache_dir: Path, error: NativeError) -> None:
    """Logs once that a cache is not used; raises other errors."""
    kind, message = error.args
    if kind != "cache":
        raise error
    if cache_dir in _warned:
        return
    _warned.add(cache_dir)
    logger.warning(
        "cannot cache compiled components in `%s`, so every start compiles them again: %s; "
        "make the folder writable by its owner only, remove it, or set `cache_dir`",
        cache_dir,
        message.removeprefix("the cache cannot be used: "),
        extra={"event": "cache.unusable"},
    )
