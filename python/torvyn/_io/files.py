"""Files and folders that several processes use, and that must be whole after a crash.

    FileLock           an advisory lock on a file or a folder
    write_atomically   a reader sees the old content or the new one
    new_folder         a folder appears whole, or not at all
    sync_folder        names in a folder survive a power failure
    tree_digest        one digest for a set of files
    writable_folder    a folder, or one among the temporary files

Errors are `OSError` and `Locked`; whoever calls says what they mean for people.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self

_POLL_S: Final = 0.02


class Locked(Exception):
    """Somebody else has the lock."""

    def __init__(self, path: Path, pid: str) -> None:
        super().__init__(f"{path} is locked")
        self.path = path
        self.pid = pid
        """The process that has it, if it has written that down."""


class FileLock:
    """A lock that ends with the last process that has it or has inherited it.

    `create` is the mode of a file that is made if it is missing; without it the file, or the
    folder, must exist. `names_owner` writes the process into the file, for those who wait.

        with FileLock(folder / "lock", create=0o600).acquire(wait_s=5.0):
            ...
    """

    def __init__(
        self,
        path: Path,
        *,
        is_shared: bool = False,
        create: int | None = None,
        names_owner: bool = False,
    ) -> None:
        self.path = path
        flags = os.O_RDONLY if create is None else os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, create or 0)
        self._kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        self._names_owner = names_owner

    def acquire(self, wait_s: float | None = 0.0) -> Self:
        """Waits so long, without a limit for None, and raises `Locked`. Then it is released too."""
        until_s = None if wait_s is None else time.monotonic() + wait_s
        while not self._try(is_blocking=wait_s is None):
            if until_s is not None and time.monotonic() >= until_s:
                pid = os.pread(self._descriptor, 20, 0) if self._names_owner else b""
                self.release()
                raise Locked(self.path, pid.decode("ascii", "replace").strip())
            time.sleep(_POLL_S)
        if self._names_owner:
            with contextlib.suppress(OSError):  # a full disk
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        return self

    def _try(self, *, is_blocking: bool) -> bool:
        try:
            fcntl.flock(self._descriptor, self._kind | (0 if is_blocking else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        except BaseException:
            self.release()
            raise
        return True

    def fileno(self) -> int:
        """For a process that inherits the lock."""
        return self._descriptor

    def release(self) -> None:
        """The file stays: whoever removes it could remove the lock of another process."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Whether somebody has a lock on what is there."""
    try:
        FileLock(path).acquire().release()
    except Locked:
        return True
    except OSError:
        return False
    return False


def no_step(name: str) -> None:
    """The default of `step`."""


def write_atomically(
    path: Path,
    data: bytes | str,
    *,
    mode: int = 0o644,
    is_durable: bool = True,
    keeps_owner: bool = False,
    step: Callable[[str], None] = no_step,
) -> None:
    """Replaces a file, or leaves the old one as it is.

    `is_durable`: the new content survives a power failure. `keeps_owner`: root may write a file
    that another user must still read. `step` is called between any two system calls, so that a test
    can end the process there.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    content = data.encode() if isinstance(data, str) else data
    try:
        step(f"create {path.name}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(new, flags, mode), "wb") as file:
            # In two parts, so that a test can end the process inside the file.
            file.write(content[: len(content) // 2])
            file.flush()
            step(f"write {path.name}")
            file.write(content[len(content) // 2 :])
            file.flush()
            if keeps_owner and os.geteuid() == 0 and path.exists():
                before = path.stat()
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            step(f"sync {path.name}")
            if is_durable:
                os.fsync(file.fileno())
        step(f"replace {path.name}")
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    step(f"sync folder of {path.name}")
    if is_durable:
        sync_folder(path.parent)


@contextlib.contextmanager
def new_folder(target: Path, *, mode: int = 0o755, is_durable: bool = False) -> Iterator[Path]:
    """A folder to fill, which gets the name `target` when the block succeeds. If another process
    was faster, its folder stays."""
    made = Path(tempfile.mkdtemp(prefix=f".{target.name[:32]}-", dir=target.parent))
    try:
        yield made
        made.chmod(mode)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():
                raise
        if is_durable:
            sync_folder(target.parent)
    finally:
        shutil.rmtree(made, ignore_errors=True)


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
    with contextlib.suppress(FileExistsError):
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
