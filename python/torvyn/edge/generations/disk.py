"""Writes that are complete or absent after a crash: a new file, fsync, rename, fsync of the folder.

`on_step` is called between any two system calls, so that a test can end the process there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from torvyn.edge.failures import disk_failed
from torvyn.machine.files import sync_folder

_TRASH: Final = "trash-"


class Disk:
    def __init__(self, on_step: Callable[[str], None] | None = None) -> None:
        self.step: Final = on_step or (lambda name: None)

    def write(self, path: Path, data: bytes) -> None:
        """Replaces a file, or leaves the old one."""
        with reported(path):
            new = path.with_name(f".{path.name}.new")
            try:
                self._write_new(new, data)
                self.step(f"replace {path.name}")
                new.replace(path)
            except OSError:
                new.unlink(missing_ok=True)
                raise
            self.step(f"sync folder of {path.name}")
            sync_folder(path.parent)

    def _write_new(self, new: Path, data: bytes) -> None:
        self.step(f"create {new.name}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            # In two parts, so that a test can end the process inside the file.
            file.write(data[: len(data) // 2])
            file.flush()
            self.step(f"write {new.name}")
            file.write(data[len(data) // 2 :])
            file.flush()
            self.step(f"sync {new.name}")
            os.fsync(file.fileno())

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
            descriptor = os.open(made, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
            os.close(descriptor)

    def sweep(self, folder: Path) -> None:
        """Removes what crashed processes have left in a staging folder."""
        for left in folder.iterdir():
            if not is_in_use(left):
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
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def is_in_use(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


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
