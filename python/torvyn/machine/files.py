"""Files that must survive a power failure, and folders for those that need not."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tree_digest(files: Mapping[str, Path]) -> str:
    """One digest for a set of files: of their paths and contents, in the order of the paths."""
    digest = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(files[path].read_bytes()).hexdigest()
        digest.update(f"sha256:{content} {path}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def own_temporary_folder(name: str) -> Path:
    """A folder for temporary files that the user's processes share. If another user has made it, it
    is a new one, for this call alone."""
    folder = Path(tempfile.gettempdir(), f"{name}-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        return Path(tempfile.mkdtemp(prefix=f"{name}-"))
    return folder


def writable_folder(folder: Path, name: str) -> Path:
    """The folder, or one of that name among the temporary files where it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return own_temporary_folder(name)
    is_writable = os.access(folder, os.W_OK | os.X_OK)
    return folder if is_writable else own_temporary_folder(name)
