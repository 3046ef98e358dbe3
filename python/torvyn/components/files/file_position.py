"""A position in a file that survives a restart, and whether a file is still the one it was for.

A name is not enough: log files are renamed, truncated and replaced. So a position holds the file's
inode and a digest of its first bytes besides the offset.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from torvyn.errors import InvalidInput

FINGERPRINT_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class FilePosition:
    """The next byte to read is at `offset`. `prefix_bytes` first bytes have the digest."""

    device: int
    inode: int
    offset: int
    line: int = 0
    """The number of lines before the offset."""
    prefix_bytes: int = 0
    fingerprint: str = ""

    @classmethod
    def of(
        cls, descriptor: int, offset: int, line: int = 0, prefix: bytes | None = None
    ) -> FilePosition:
        """The position in an open file, whose first bytes were `prefix` when they were read."""
        found = os.fstat(descriptor)
        length = min(FINGERPRINT_BYTES, offset)
        first = os.pread(descriptor, length, 0) if prefix is None else prefix[:length]
        return cls(found.st_dev, found.st_ino, offset, line, length, digest(first))

    @classmethod
    def from_state(cls, state: Any) -> FilePosition:
        """The position from what `to_state` returned; raises `InvalidInput`."""
        try:
            if not isinstance(state, Mapping):
                raise TypeError("not a table")
            return cls(**{name: state[name] for name in cls.__slots__})
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"the saved position of a file is damaged: {error}") from error

    def to_state(self) -> dict[str, Any]:
        return asdict(self)

    def matches(self, descriptor: int) -> bool:
        """Whether the open file is long enough and begins as it did."""
        if os.fstat(descriptor).st_size < self.offset:
            return False
        return digest(os.pread(descriptor, self.prefix_bytes, 0)) == self.fingerprint

    def is_same_file(self, descriptor: int) -> bool:
        found = os.fstat(descriptor)
        return (found.st_dev, found.st_ino) == (self.device, self.inode) and self.matches(
            descriptor
        )


def digest(first: bytes) -> str:
    return hashlib.blake2b(first, digest_size=16).hexdigest()
