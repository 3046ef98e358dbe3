"""Compiles and describes `.wasm` files, in processes with resource limits, with a cache.

Unchecked components are read only in such a process, with limits on memory and processor time that
grow with the file. An invalid file raises `LinkError` with a `sandbox.*` code.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torvyn import _native
from torvyn._io.resources import allowed_cpus
from torvyn._native import NativeError
from torvyn._sandbox import compiler_process
from torvyn.errors import LinkError, os_reason

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


_BASE_S, _S_PER_MIB = 2, 5
_BASE_BYTES, _BYTES_PER_BYTE = 128 << 20, 64
"""A Python guest, 18 MiB of wasm, takes 18 s of processor time and 420 MiB."""


def precompile(wasm: bytes, counts_fuel: bool, target: str = "") -> bytes:
    """Compiled code for this machine or for a target; raises `NativeError` for an invalid component
    or one over the limits."""
    return _request(compiler_process.COMPILE, wasm, counts_fuel, target)


def describe(wasm: bytes) -> dict[str, Any]:
    """World, imports, exports and sizes of a component."""
    description: dict[str, Any] = json.loads(_request(compiler_process.DESCRIBE, wasm, False))
    return description


@contextlib.contextmanager
def reuse_process() -> Iterator[None]:
    """Keeps a process alive for all components that are compiled inside the block."""
    pool = _pool
    pool.enter()
    try:
        yield
    finally:
        pool.leave()


def _request(task: bytes, wasm: bytes, counts_fuel: bool, target: str = "") -> bytes:
    time_s = _BASE_S + _S_PER_MIB * len(wasm) // (1 << 20)
    memory_bytes = _BASE_BYTES + _BYTES_PER_BYTE * len(wasm)
    options = (counts_fuel, target.encode())
    header = compiler_process.REQUEST.pack(task, time_s, memory_bytes, *options, len(wasm))
    with reuse_process():
        process = _pool.take()
        try:
            status, result = process.request(header, wasm, 4 * time_s)
        except BaseException:
            process.kill()
            raise
        _pool.put(process)
    if status == compiler_process.DONE:
        return result
    if status == compiler_process.REJECTED:
        kind, _, message = result.decode(errors="replace").partition(" ")
        raise NativeError(kind, " ".join(message.split()))
    if status == compiler_process.OUT_OF_TIME:
        raise _too_costly(f"{time_s} s of processor time")
    raise _too_costly(f"{memory_bytes >> 20} MiB of memory")


def _too_costly(limit: str) -> NativeError:
    return NativeError("too-costly", f"compiling it takes more than {limit}")


class _Process:
    """A compiler process that waits for requests and ends when its stdin closes."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", compiler_process.__file__, _native.__file__]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        # Its own session: the parent handles an interrupt at the terminal, and a request that
        # takes too long is killed together with its fork.
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=null, bufsize=0, start_new_session=True
            )
        except OSError as error:
            message = f"cannot start the compiler process: {error}"
            raise NativeError("engine", message) from error

    def request(self, header: bytes, wasm: bytes, timeout_s: float) -> tuple[int, bytes]:
        assert self._process.stdin is not None
        deadline_s = time.monotonic() + timeout_s
        try:
            for part in (header, wasm):
                view = memoryview(part)
                while view:
                    view = view[self._process.stdin.write(view) or 0 :]
            status, size = compiler_process.RESPONSE.unpack(
                self._read(compiler_process.RESPONSE.size, deadline_s)
            )
            return status, self._read(size, deadline_s)
        except TimeoutError:
            raise _too_costly(f"{timeout_s:g} s") from None
        except BrokenPipeError:
            raise NativeError("engine", "the compiler process ended") from None

    def _read(self, size: int, deadline_s: float) -> bytes:
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN | select.POLLHUP)
        parts = []
        while size:
            left_ms = max(0, int((deadline_s - time.monotonic()) * 1e3))
            if not poll.poll(left_ms):
                raise TimeoutError
            part = self._process.stdout.read(min(size, 1 << 20))
            if not part:
                raise BrokenPipeError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def stop(self) -> None:
        """Ends an idle process."""
        self._close()
        self._process.wait()

    def kill(self) -> None:
        """Kills the process and its forks."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.stop()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class _Pool:
    """Idle compiler processes. The last user to leave stops them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._idle: list[_Process] = []

    def enter(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            idle = self._idle if self._users == 0 else []
            self._idle = self._idle if self._users else []
        for process in idle:
            process.stop()

    def take(self) -> _Process:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Process()

    def put(self, process: _Process) -> None:
        with self._lock:
            self._idle.append(process)


_pool = _Pool()


def _reset_pool() -> None:
    """After a fork, the processes belong to the parent."""
    global _pool
    _pool = _Pool()


os.register_at_fork(after_in_child=_reset_pool)


SIZES: Final = (
    *("size_bytes", "modules", "functions"),
    *("code_bytes", "data_bytes", "memory_bytes"),
)


def describe_component(path: Path) -> dict[str, Any]:
    """Compiles the component in a file and describes it; does not start it."""
    with reuse_process():
        compiled = compile_component(path, path.stem)
        description = describe(path.read_bytes())
    return {
        "file": str(path),
        **{name: description[name] for name in SIZES},
        "role": compiled.role,
        "world": compiled.world,
        "interface": compiled.interface,
        "imports": compiled.imports,
        "exports": compiled.exports,
        "capabilities": compiled.capabilities,
    }
