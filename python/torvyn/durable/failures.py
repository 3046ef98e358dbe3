"""The errors of the store, and what SQLite's errors mean.

A full disk and a failed write are not the end of a flow: the caller keeps what it has and tries
again. Nothing of a failed transaction is in the store.
"""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Final, Literal

from torvyn.errors import FlowError, InvalidInput, Unavailable

Reason = Literal["full", "io", "limit", "corrupt"]

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_CODES: Final[dict[Reason, str]] = {
    "full": "durable.disk-full",
    "io": "durable.disk-failed",
    "limit": "durable.log-full",
    "corrupt": "durable.damaged",
}
_HINTS: Final[dict[Reason, str]] = {
    "full": "free disk space; the flow continues by itself",
    "io": "check the disk and the permissions of the folder; the flow continues by itself",
    "limit": "wait until the log is drained, raise `max_bytes`, or choose a `drop` policy",
    "corrupt": "try again: the store has copied what is readable to a new file",
}


_NO_FOLDER: Final = (
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EPERM,
)
"""The folder is the wrong one, which does not pass by itself. A disk that is read-only does: Linux
makes it so after some failures."""
_START_HINTS: Final[dict[Reason, str]] = {
    "full": "free disk space, or set another folder as `[runtime] state_dir`",
    "io": "check the disk and the permissions of the folder, or set another one as "
    "`[runtime] state_dir`",
}


class StoreUnavailable(Unavailable):
    """The store cannot take this now. Nothing of the transaction is durable."""

    def __init__(
        self, reason: Reason, message: str, hint: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, code=code or _CODES[reason], hint=hint or _HINTS[reason])
        self.reason: Final = reason

    @property
    def is_lasting(self) -> bool:
        """Whether it makes no sense to try again."""
        cause = self.__cause__
        is_misplaced = isinstance(cause, OSError) and cause.errno in _NO_FOLDER
        return self.reason == "corrupt" or is_misplaced

    def at_start(self) -> StoreUnavailable:
        """The same for a store that cannot be opened: a start may be given up."""
        error = StoreUnavailable(self.reason, self.message, _START_HINTS.get(self.reason))
        error.__cause__ = self.__cause__
        return error


STORE_ERRORS: Final = (sqlite3.Error, OSError, UnicodeDecodeError)
"""What a disk or a damaged file can lead to. SQLite's messages quote damaged texts."""
StoreError = sqlite3.Error | OSError | UnicodeDecodeError


def reason_of(error: StoreError) -> Reason:
    """What an error means. Raises errors that are mistakes of this package."""
    if isinstance(error, UnicodeDecodeError):
        return "corrupt"
    if isinstance(error, OSError):
        return "full" if error.errno in _FULL else "io"
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and "decode" not in str(error):
        raise error
    code = (code or sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return "full"
    if code in _NOT_OF_THE_DISK:
        raise error
    return "io" if code in _IO else "corrupt"


_IO: Final = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOLFS,
)
# The statements of this package are right: if SQLite finds an error in one, the schema is damaged.
_NOT_OF_THE_DISK: Final = (
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_RANGE,
)


def unavailable(path: Path, error: StoreError) -> StoreUnavailable:
    reason = reason_of(error)
    what = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return StoreUnavailable(reason, f"cannot write to `{path}`: {what}")


def in_use(path: Path, pid: str) -> FlowError:
    return FlowError(
        "durable.in-use",
        f"another process{f' (pid {pid})' if pid else ''} runs the flow that stores its data in "
        f"`{path}`",
        hint="stop that process, or give this flow a `state_dir` of its own",
    )


def newer_version(path: Path, version: int) -> FlowError:
    return FlowError(
        "durable.newer-version",
        f"a newer version of torvyn has written `{path}`: its schema version is {version}",
        hint="run that version again, or move the file away: the elements in it are not delivered "
        "then",
    )


def row_too_large(log: str, size_bytes: int, limit_bytes: int) -> InvalidInput:
    return InvalidInput(
        f"a batch of {size_bytes} bytes does not fit into the log `{log}`, which takes batches of "
        f"at most {limit_bytes} bytes",
        hint="raise the edge's `max_bytes`",
        code="durable.row-too-large",
    )
