"""A file to which records are appended, completely or not at all.

When the disk is full or does not confirm, the records of the call are removed again: the file ends
with the last complete record, and the elements can be retried.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from torvyn.components.files.text_files import open_to_append
from torvyn.components.spec import Option, Spec
from torvyn.errors import Unavailable, os_reason

PATH: Final = Option(
    "path", "text", None, "The file to write; its folder must exist.", required=True
)
MODE: Final = Option(
    "mode",
    "choice",
    "append",
    "Whether to keep or to clear the file's content.",
    choices=("append", "truncate"),
)


class AppendFile:
    """An open file. With `fsync`, `write` returns when the disk has the records."""

    def __init__(self, spec: Spec, path: str, *, truncate: bool = False, fsync: bool = False):
        self._path = path
        self._descriptor: int | None = open_to_append(spec, path, truncate=truncate)
        self.is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._fsync = fsync and self.is_regular

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size if self._descriptor is not None else 0

    def end_line(self) -> None:
        """Ends the last line, so that the next record does not continue a torn one."""
        if not self.is_regular or not self.size_bytes:
            return
        with open(os.path.expanduser(self._path), "rb") as file:
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        if torn:
            self.write(b"\n")

    def write(self, records: bytes) -> None:
        """Appends the records; raises `Unavailable` and leaves none of them."""
        if self._descriptor is None:
            raise Unavailable(f"cannot write {self._path}: it is not open")
        written = 0
        try:
            while written < len(records):
                written += os.write(self._descriptor, memoryview(records)[written:])
            if self._fsync:
                os.fsync(self._descriptor)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._remove(self._descriptor, written)
            raise self._unavailable(error) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _remove(self, descriptor: int, written: int) -> None:
        if written and self.is_regular:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)

    def _unavailable(self, error: OSError) -> Unavailable:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        hint = "free some disk space; all earlier elements are in the file" if full else None
        return Unavailable(f"cannot write {self._path}: {os_reason(error)}", hint=hint)
