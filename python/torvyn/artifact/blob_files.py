"""Files on disk: read only if they are regular, checked against a digest, written completely or not
at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from torvyn._io.files import sync_folder, write_atomically
from torvyn.artifact.failures import digest_mismatch, invalid, too_large, unreadable, unwritable
from torvyn.artifact.model import Descriptor, Digest, digest_of

_CHUNK: Final = 1 << 20


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """The file. Links, devices and pipes are refused: they could lead anywhere, or never end."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise invalid(f"`{path}` is a link, not a file") from None
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise invalid(f"`{path}` is not a regular file")
    with os.fdopen(number, "rb") as file:
        yield file


@contextlib.contextmanager
def open_checked(path: Path, descriptor: Descriptor) -> Iterator[BufferedReader]:
    """The file at its start, after its size and its digest were checked."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != descriptor.size:
            raise digest_mismatch(f"`{path}`", f"it has {size} bytes, not {descriptor.size}")
        with _reading(path):
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _check(Digest(f"sha256:{digest}"), size, descriptor, f"`{path}`")
        file.seek(0)
        yield file


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """The content of a small file that no digest protects."""
    with open_regular(path) as file, _reading(path):
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise too_large(f"`{path}` has more than {limit_bytes} bytes")
    return data


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error


def check_content(data: bytes, descriptor: Descriptor, what: str) -> None:
    """Raises `artifact.digest-mismatch` unless these are the bytes that the descriptor names."""
    _check(digest_of(data), len(data), descriptor, what)


def copy_checked(source: BinaryIO, target: BinaryIO, descriptor: Descriptor, what: str) -> None:
    """Checks what was copied; raises after the last byte if it differs."""
    digest, size = copy_hashed(source, target, descriptor.size)
    _check(digest, size, descriptor, what)


def copy_hashed(
    source: BinaryIO, target: BinaryIO, limit_bytes: int | None = None
) -> tuple[Digest, int]:
    """Copies a file; its digest and size. Stops after the limit."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if limit_bytes is not None and size > limit_bytes:
            break
        target.write(chunk)
    return Digest(f"sha256:{digest.hexdigest()}"), size


@contextlib.contextmanager
def temporary_file(folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file that is removed at the end, unless it was renamed."""
    try:
        number, name = tempfile.mkstemp(prefix=".new-", dir=folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    file = os.fdopen(number, "wb+")
    try:
        yield file, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        # On a full disk, closing writes once more: `keep` has said what failed.
        with contextlib.suppress(OSError):
            file.close()


def keep(file: BinaryIO, source: Path, target: Path) -> None:
    """Renames a complete file so that it survives a power failure."""
    try:
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        source.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise unwritable(target, error) from error


def write_file(path: Path, data: bytes) -> None:
    """Replaces a file: a reader sees the old content or the new one."""
    try:
        write_atomically(path, data)
    except OSError as error:
        raise unwritable(path, error) from error


def _check(digest: Digest, size: int, descriptor: Descriptor, what: str) -> None:
    if size != descriptor.size:
        raise digest_mismatch(what, f"it has {size} bytes, not {descriptor.size}")
    if digest != descriptor.digest:
        raise digest_mismatch(what, f"its digest is {digest}, not {descriptor.digest}")
