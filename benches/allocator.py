"""What the C library's allocator has given out, and how much of it the native part of a flow takes.

All native code allocates here. Python's own small objects do not: they live in arenas of their own.
The figures are exact only in a process that keeps no freed memory per thread: start it with
`environment()`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS.split()]


_mallinfo: Any = getattr(ctypes.CDLL(None), "mallinfo2", None)
if _mallinfo is not None:
    _mallinfo.restype = _Mallinfo


def missing() -> str | None:
    """Why nothing can be measured on this system."""
    return "the C library has no mallinfo2 (glibc 2.33)" if _mallinfo is None else None


def environment() -> dict[str, str]:
    """The variables of a process in which the figures are exact."""
    return {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def allocated_bytes() -> int:
    """The bytes that are given out, with what the allocator adds to each piece."""
    info = _mallinfo()
    return int(info.uordblks + info.hblkhd)


@contextmanager
def measured_builds() -> Iterator[list[int]]:
    """The bytes that the native part of each flow takes which is built meanwhile, in this list."""
    from torvyn._flow import execution

    sizes: list[int] = []
    original: Any = execution.NativeFlow

    def build(*arguments: Any, **options: Any) -> Any:
        before = allocated_bytes()
        native = original(*arguments, **options)
        sizes.append(allocated_bytes() - before)
        return native

    setattr(execution, "NativeFlow", build)  # noqa: B010
    try:
        yield sizes
    finally:
        setattr(execution, "NativeFlow", original)  # noqa: B010
