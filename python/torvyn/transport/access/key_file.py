"""The key file: who may ask, with their limits, as JSON on disk.

It holds hashes, never a key: a key is known to who was given it when it was made, and to nobody
else. It is replaced whole, under a lock, and read by nobody but its owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from torvyn.errors import MissingError, UsageError
from torvyn.transport.access.key_record import PREFIX, KeyRecord, record_of

VERSION: Final = 1
_KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_MOST_BYTES: Final = 16 * 1024 * 1024
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_READ: Final = stat.S_IROTH


@dataclass(slots=True)
class KeyFile:
    """What the file says."""

    salt: bytes = field(default_factory=lambda: secrets.token_bytes(_SALT_BYTES))
    keys: dict[str, KeyRecord] = field(default_factory=dict)
    """By name."""
    warnings: tuple[str, ...] = ()

    def digest(self, key: str) -> str:
        """How a key is written down. It has 256 random bits, so nobody can guess it however fast
        the hash is: the slow hashes for passwords would only slow down every request. The salt is
        the file's own, so that hashes of two files do not tell that a key is in both."""
        return hashlib.sha256(self.salt + key.encode(errors="replace")).hexdigest()

    def add(self, name: str, *, lasts: timedelta | None = None, **more: Any) -> str:
        """Makes a key, which is given once: only its hash is kept."""
        if name in self.keys:
            raise UsageError(
                "transport.key-exists",
                f"there is a key `{name}` already",
                hint=f"choose another name, or `torvyn keys revoke {name}` first",
            )
        key = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
        now = datetime.now(UTC)
        given = {label: value for label, value in more.items() if value is not None}
        if lasts is not None:
            given["expires"] = _stamp(now + lasts)
        fields = {"name": name, "hash": self.digest(key), "created": _stamp(now), **given}
        try:
            self.keys[name] = record_of(fields)
        except ValueError as error:
            raise UsageError("transport.key-invalid", str(error)) from None
        return key

    def revoke(self, name: str) -> KeyRecord:
        if name not in self.keys:
            # Somebody may take the key itself for its name: it is not repeated.
            shown = "by that name" if name.startswith(PREFIX) else f"`{name}`"
            hint = "`torvyn keys list` shows their names"
            raise UsageError("transport.key-unknown", f"there is no key {shown}", hint=hint)
        return self.keys.pop(name)


def read(path: Path) -> KeyFile:
    """The file, with a warning when others can read it."""
    try:
        # A pipe is an error here, not a server that waits for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MOST_BYTES + 1) if stat.S_ISREG(mode) else b""
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        hint = f"`torvyn keys add NAME --file {path}` makes it"
        message = f"the key file `{path}` cannot be read: {reason}"
        raise MissingError("transport.keys-unreadable", message, hint=hint) from error
    if mode & _OTHERS_WRITE:
        raise UsageError(
            "transport.keys-exposed",
            f"others may write the key file `{path}`, and so make keys for themselves",
            hint=f"chmod 600 {path}",
        )
    found = _parsed(path, data)
    if mode & _OTHERS_READ:
        found.warnings = (f"everybody on this machine can read `{path}`: chmod 600 {path}",)
    return found


@contextlib.contextmanager
def changed(path: Path) -> Iterator[KeyFile]:
    """The file, to be changed: it is written when the block ends well. One at a time."""
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        _unwritable(path, error)
    try:
        # The folder is locked and not the file, which is replaced by another.
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = read(path) if path.exists() else KeyFile()
        yield found
        try:
            _replace(path, found)
            os.fsync(folder)
        except OSError as error:
            _unwritable(path, error)
    finally:
        os.close(folder)


def _replace(path: Path, file: KeyFile) -> None:
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as out:
            out.write(_rendered(file))
            out.flush()
            _keep_owner(path, descriptor)
            os.fsync(descriptor)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _keep_owner(path: Path, descriptor: int) -> None:
    """Root may change the keys of a server that runs as somebody else, who reads them."""
    if os.geteuid() == 0 and path.exists():
        before = path.stat()
        os.fchown(descriptor, before.st_uid, before.st_gid)


def _rendered(file: KeyFile) -> str:
    keys = [
        {name: value for name, value in asdict(key).items() if value is not None}
        for key in file.keys.values()
    ]
    fields = {"version": VERSION, "salt": file.salt.hex(), "keys": keys}
    return json.dumps(fields, indent=2) + "\n"


def _parsed(path: Path, data: bytes) -> KeyFile:
    if len(data) > _MOST_BYTES:
        _invalid(path, f"it is larger than {_MOST_BYTES} bytes")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        _invalid(path, f"it is no JSON: {error}")
    if not isinstance(fields, dict) or not isinstance(fields.get("keys"), list):
        _invalid(path, "it has no list of `keys`")
    if fields.get("version") != VERSION:
        _invalid(path, f"its version is {fields.get('version')!r}, and this build reads {VERSION}")
    try:
        salt = bytes.fromhex(fields["salt"])
        records = [record_of(key) for key in fields["keys"]]
    except (KeyError, TypeError, ValueError) as error:
        _invalid(path, str(error) if isinstance(error, ValueError) else "its salt is damaged")
    keys = {record.name: record for record in records}
    if len(salt) < _SALT_BYTES or len(keys) < len(records):
        _invalid(path, "its salt is too short, or two keys share a name")
    return KeyFile(salt, keys)


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _invalid(path: Path, reason: str) -> NoReturn:
    hint = "`torvyn keys` writes it; bring back a copy, or make new keys in another file"
    raise UsageError("transport.keys-invalid", f"`{path}` is no key file: {reason}", hint=hint)


def _unwritable(path: Path, error: OSError) -> NoReturn:
    reason = (error.strerror or str(error)).lower()
    message = f"the key file `{path}` cannot be written: {reason}"
    raise MissingError(
        "transport.keys-unwritable", message, hint="`--file` names another"
    ) from error
