"""Files that must survive a power failure, and folders for those that need not."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
