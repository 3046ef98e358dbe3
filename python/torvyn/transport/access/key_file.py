"""The key file: the API keys of a server and their limits, as JSON on disk.

It contains hashes, never a key: a key is shown once, when it is created. The file is replaced as a
whole, under a lock, and only its owner can read it.
"""

from __future__ import annotations

import contextlib
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

from torvyn._io.files import FileLock, write_atomically
from torvyn.errors import MissingError, UsageError, os_reason
from torvyn.transport.access.key_record import PREFIX, KeyRecord, parse_record

VERSION: Final = 1
_KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_MAX_BYTES: Final = 16 * 1024 * 1024
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_READ: Final = stat.S_IROTH


@dataclass(slots=True)
class KeyFile:
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(_SALT_BYTES))
    keys: dict[str, KeyRecord] = field(default_factory=dict)
    """By name."""
    warnings: tuple[str, ...] = ()

    def digest(self, key: str) -> str:
        """The hash of a key. A key has 256 random bits and cannot be guessed, so a fast hash is
        enough: a slow one, as for passwords, would only slow down every request. Each file has its
        own salt, so two files do not reveal that they share a key."""
        return hashlib.sha256(self.salt + key.encode(errors="replace")).hexdigest()

    def add(self, name: str, *, lifetime: timedelta | None = None, **more: Any) -> str:
        """Creates a key and returns it; only its hash is stored."""
        if name in self.keys:
            raise UsageError(
                "transport.key-exists",
                f"a key named `{name}` already exists",
                hint=f"choose another name, or run `torvyn keys revoke {name}` first",
            )
        key = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
        now = datetime.now(UTC)
        options = {label: value for label, value in more.items() if value is not None}
        if lifetime is not None:
            options["expires"] = _stamp(now + lifetime)
        fields = {"name": name, "hash": self.digest(key), "created": _stamp(now), **options}
        try:
            self.keys[name] = parse_record(fields)
        except ValueError as error:
            raise UsageError("transport.key-invalid", str(error)) from None
        return key

    def revoke(self, name: str) -> KeyRecord:
        if name not in self.keys:
            # Someone may pass the key itself as its name: it is not repeated.
            label = "by that name" if name.startswith(PREFIX) else f"named `{name}`"
            hint = "`torvyn keys list` shows the names"
            raise UsageError("transport.key-unknown", f"no key {label} exists", hint=hint)
        return self.keys.pop(name)


def read(path: Path) -> KeyFile:
    """Reads the file; the result has a warning if others can read the file."""
    try:
        # Without blocking: a pipe must be an error, not a server that waits for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MAX_BYTES + 1) if stat.S_ISREG(mode) else b""
    except (OSError, ValueError) as error:
        reason = os_reason(error)
        hint = f"`torvyn keys add NAME --file {path}` creates it"
        message = f"cannot read the key file `{path}`: {reason}"
        raise MissingError("transport.keys-unreadable", message, hint=hint) from error
    if mode & _OTHERS_WRITE:
        raise UsageError(
            "transport.keys-exposed",
            f"other users can write the key file `{path}`, and so add keys",
            hint=f"run `chmod 600 {path}`",
        )
    key_file = _parse(path, data)
    if mode & _OTHERS_READ:
        warning = f"every user of this machine can read `{path}`: run `chmod 600 {path}`"
        key_file.warnings = (warning,)
    return key_file


@contextlib.contextmanager
def edit(path: Path) -> Iterator[KeyFile]:
    """Use in a `with` statement: the file is locked, and written if the block succeeds."""
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The folder is locked, because the file itself is replaced.
        lock = FileLock(path.parent).acquire(wait_s=None)
    except OSError as error:
        _unwritable(path, error)
    with lock:
        key_file = read(path) if path.exists() else KeyFile()
        yield key_file
        try:
            # Root may edit the keys of a server that runs as another user.
            write_atomically(path, _render(key_file), mode=0o600, keeps_owner=True)
        except OSError as error:
            _unwritable(path, error)


def _render(file: KeyFile) -> str:
    keys = [
        {name: value for name, value in asdict(key).items() if value is not None}
        for key in file.keys.values()
    ]
    fields = {"version": VERSION, "salt": file.salt.hex(), "keys": keys}
    return json.dumps(fields, indent=2) + "\n"


def _parse(path: Path, data: bytes) -> KeyFile:
    if len(data) > _MAX_BYTES:
        _invalid(path, f"it is larger than {_MAX_BYTES} bytes")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        _invalid(path, f"it is not valid JSON: {error}")
    if not isinstance(fields, dict) or not isinstance(fields.get("keys"), list):
        _invalid(path, "it has no list of `keys`")
    if fields.get("version") != VERSION:
        _invalid(path, f"its version is {fields.get('version')!r}, not {VERSION}")
    try:
        salt = bytes.fromhex(fields["salt"])
        records = [parse_record(key) for key in fields["keys"]]
    except (KeyError, TypeError, ValueError) as error:
        _invalid(path, str(error) if isinstance(error, ValueError) else "its salt is damaged")
    keys = {record.name: record for record in records}
    if len(salt) < _SALT_BYTES or len(keys) < len(records):
        _invalid(path, "its salt is too short, or two keys share a name")
    return KeyFile(salt, keys)


def _stamp(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _invalid(path: Path, reason: str) -> NoReturn:
    hint = "restore a copy, or create new keys in another file with `torvyn keys add`"
    raise UsageError("transport.keys-invalid", f"`{path}` is not a key file: {reason}", hint=hint)


def _unwritable(path: Path, error: OSError) -> NoReturn:
    reason = os_reason(error)
    message = f"cannot write the key file `{path}`: {reason}"
    raise MissingError(
        "transport.keys-unwritable", message, hint="choose another file with `--file`"
    ) from error
