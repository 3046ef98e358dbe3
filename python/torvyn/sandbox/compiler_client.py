"""The client of the compiler's process: sends wasm, receives compiled code or a description.

Unchecked components are read only in that process, with limits on memory and processor time that
grow with the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from torvyn import _native
from torvyn._native import NativeError
from torvyn.machine import native_parts
from torvyn.sandbox import compiler_process

_BASE_S, _S_PER_MIB = 2, 5
_BASE_BYTES, _BYTES_PER_BYTE = 128 << 20, 64
"""A Python guest, 18 MiB of wasm, takes 18 s of processor time and 420 MiB."""


def precompile(wasm: bytes, counts_fuel: bool, target: str = "") -> bytes:
    """Compiled code for this machine or for a target; raises `NativeError` for an invalid component
    or one over the limits."""
    native_parts.require("sandbox")
    if target and not target.startswith(platform.machine()):
        native_parts.require("cross")
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
