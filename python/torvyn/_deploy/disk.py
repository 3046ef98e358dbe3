"""Writes that are complete or absent after a crash: a new file, fsync, rename, fsync of the folder.

`on_step` is called between any two system calls, so that a test can end the process there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from torvyn._deploy.failures import disk_failed, in_use
from torvyn._io.files import FileLock, Locked, is_locked, sync_folder, write_atomically

_TRASH: Final = "trash-"


class Disk:
    def __init__(self, on_step: Callable[[str], None] | None = None) -> None:
        self.step: Final = on_step or (lambda name: None)

    def write(self, path: Path, data: bytes) -> None:
        """Replaces a file, or leaves the old one."""
        with reported(path):
            for left in path.parent.glob(f".{path.name}.*.new"):
                left.unlink(missing_ok=True)
            write_atomically(path, data, step=self.step)

    def link(self, path: Path, target: str | None) -> None:
        """Makes `path` a symbolic link to the target; without one, removes it."""
        with reported(path):
            if target is None:
                self.step(f"unlink {path.name}")
                path.unlink(missing_ok=True)
            elif _target_of(path) != target:
                new = path.with_name(f".{path.name}.new")
                new.unlink(missing_ok=True)
                self.step(f"link {path.name}")
                new.symlink_to(target)
                self.step(f"replace {path.name}")
                new.replace(path)
            else:
                return
            sync_folder(path.parent)

    def move(self, source: Path, target: Path) -> None:
        """Renames a folder whose files are on disk already. The target must not exist."""
        with reported(target):
            self.step(f"move {target.name}")
            source.rename(target)
            self.step(f"sync folder of {target.name}")
            sync_folder(target.parent)
            if source.parent != target.parent:
                sync_folder(source.parent)

    def remove(self, folder: Path, staging: Path) -> None:
        """Removes a folder: it disappears at once, and its files afterwards."""
        with reported(folder):
            trash = Path(tempfile.mkdtemp(prefix=_TRASH, dir=staging))
            self.move(folder, trash / folder.name)
            self.step(f"remove {folder.name}")
            shutil.rmtree(trash)

    @contextlib.contextmanager
    def staging(self, folder: Path) -> Iterator[Path]:
        """A new folder inside `folder`, gone after the block. It is locked, so that `sweep` of
        another process leaves it alone."""
        with reported(folder):
            made = Path(tempfile.mkdtemp(prefix="new-", dir=folder))
            lock = FileLock(made)
        with lock.acquire():
            try:
                yield made
            finally:
                shutil.rmtree(made, ignore_errors=True)

    def sweep(self, folder: Path) -> None:
        """Removes what crashed processes have left in a staging folder."""
        for left in folder.iterdir():
            if not is_locked(left):
                self.step(f"sweep {left.name}")
                shutil.rmtree(left, ignore_errors=True)


def is_writable(folder: Path) -> bool:
    """Whether something can be written there, now."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable-") as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    return True


def hold(folder: Path) -> int:
    """A descriptor: until it is closed, the folder is in use."""
    with reported(folder):
        return FileLock(folder, is_shared=True).acquire(wait_s=None).fileno()


@contextlib.contextmanager
def held_lock(path: Path, wait_s: float, what: str) -> Iterator[int]:
    """The descriptor of a locked file. `what` says what another process does that has the lock. The
    lock ends with the last process that has inherited it."""
    with reported(path):
        lock = FileLock(path, create=0o644)
    try:
        lock.acquire(wait_s)
    except Locked:
        raise in_use(what) from None
    with lock:
        yield lock.fileno()


def _target_of(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


@contextlib.contextmanager
def reported(path: Path) -> Iterator[None]:
    """What the disk refuses in this block is `edge.disk-failed`."""
    try:
        yield
    except OSError as error:
        raise disk_failed(path, error) from error
