"""The compiler's process: `python -I -S compiler_process.py NATIVE_MODULE`.

Reads requests from stdin, one at a time, and writes responses to stdout. A fork with resource
limits handles each request. Loads only the native module, to start within milliseconds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import signal
import struct
import sys
from types import ModuleType
from typing import Final

COMPILE: Final = b"c"
DESCRIBE: Final = b"d"
REQUEST: Final = struct.Struct("!cQQ?64sQ")
"""The task, seconds of processor time, bytes of memory, whether to count fuel, the target (empty:
this machine), and the size of the wasm, which follows."""
RESPONSE: Final = struct.Struct("!BQ")
"""The status, and the size of the result or of `kind message`, which follows."""
DONE, REJECTED, OUT_OF_TIME, OUT_OF_MEMORY = 0, 2, 3, 4


def main(native_path: str) -> None:
    native = _load(native_path)
    while header := _read(0, REQUEST.size):
        task, time_s, memory_bytes, counts_fuel, target, size = REQUEST.unpack(header)
        options = (counts_fuel, target.rstrip(b"\0").decode() or None)
        wasm = _read(0, size)
        status, result = _in_fork(native, task, (time_s, memory_bytes), options, wasm)
        _write(1, RESPONSE.pack(status, len(result)))
        _write(1, result)


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("torvyn._native", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _in_fork(
    native: ModuleType,
    task: bytes,
    limits: tuple[int, int],
    options: tuple[bool, str | None],
    wasm: bytes,
) -> tuple[int, bytes]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = OUT_OF_MEMORY
        try:
            os.close(reader)
            status = _work(native, task, limits, options, wasm, writer)
        finally:
            os._exit(status)
    os.close(writer)
    result = _read(reader)
    os.close(reader)
    _, exit_status = os.waitpid(child, 0)
    if os.WIFEXITED(exit_status) and os.WEXITSTATUS(exit_status) in (DONE, REJECTED):
        return os.WEXITSTATUS(exit_status), result
    # The kernel sends SIGXCPU at the limit and SIGKILL a second later.
    if os.WIFSIGNALED(exit_status) and os.WTERMSIG(exit_status) in (signal.SIGXCPU, signal.SIGKILL):
        return OUT_OF_TIME, b""
    return OUT_OF_MEMORY, b""


def _work(
    native: ModuleType,
    task: bytes,
    limits: tuple[int, int],
    options: tuple[bool, str | None],
    wasm: bytes,
    writer: int,
) -> int:
    time_s, memory_bytes = limits
    resource.setrlimit(resource.RLIMIT_CPU, (time_s, time_s + 1))
    # Written memory, not address space: threads reserve far more than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        if task == COMPILE:
            result = native.CompiledComponent.precompile(wasm, *options)
        else:
            result = json.dumps(native.WasmTools.describe(wasm)).encode()
    except native.NativeError as error:
        kind = error.args[0] if task == COMPILE else "invalid"
        _write(writer, f"{kind} {error.args[1]}".encode())
        return REJECTED
    _write(writer, result)
    return DONE


def _read(file: int, size: int | None = None) -> bytes:
    """Exactly `size` bytes, or all; empty at the end of the file."""
    parts = []
    left = 1 << 62 if size is None else size
    while left and (part := os.read(file, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


if __name__ == "__main__":
    main(sys.argv[1])
