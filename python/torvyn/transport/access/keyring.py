"""The keyring: the API keys that a running server accepts.

`refresh` notices a change of the key file within about a second. If the file can no longer be read,
the keys stay as they are.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torvyn.errors import TorvynError
from torvyn.transport.access import key_file
from torvyn.transport.access.caller import Caller
from torvyn.transport.access.key_file import KeyFile
from torvyn.transport.access.key_record import ADMIN, KeyRecord
from torvyn.transport.workers.share import WHOLE, Share

logger = logging.getLogger("torvyn.transport")

REFRESH_S: Final = 1.0
"""The file is checked at most this often."""
SUBPROTOCOL: Final = "torvyn.key."
"""How a page sends a key: a browser cannot set the headers of a WebSocket."""
_MAX_CHARACTERS: Final = 512


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The names of keys that were added and revoked, and the hashes of the revoked ones."""

    added: tuple[str, ...]
    revoked: tuple[str, ...]
    revoked_keys: frozenset[str]


class Keyring:
    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.monotonic,
        share: Share | None = None,
    ) -> None:
        self._path = path
        self._share = share or WHOLE
        self._clock = clock
        self._signature = _signature(path)
        self._refreshed_s = clock()
        file = key_file.read(path)
        for warning in file.warnings:
            logger.warning(warning)
        self._use(file)

    def __len__(self) -> int:
        return len(self._callers)

    @property
    def has_tenants(self) -> bool:
        """Whether its keys have more than one tenant."""
        return self._has_tenants

    def caller_of(self, key: str) -> Caller | None:
        """The caller of a key, expired or not. The look-up compares salted hashes, so its duration
        reveals nothing that leads to a key."""
        return self._callers.get(self.digest(key))

    def digest(self, key: str) -> str:
        return self._file.digest(key[:_MAX_CHARACTERS])

    def current(self, caller: Caller) -> Caller | None:
        """The caller as the key file has it now; None if the key was revoked, has expired or
        belongs to another tenant now."""
        current = self._callers.get(caller.key)
        if current is None or current.tenant != caller.tenant or has_expired(current):
            return None
        return current

    def refresh(self) -> KeyChange | None:
        """Reads the file if it has changed, unless it was checked a moment ago; what changed."""
        now_s = self._clock()
        if now_s - self._refreshed_s < REFRESH_S:
            return None
        self._refreshed_s = now_s
        signature = _signature(self._path)
        if signature == self._signature:
            return None
        self._signature = signature
        try:
            file = key_file.read(self._path)
        except TorvynError as error:
            logger.error("%s; the server keeps the keys that it has", error.message)
            return None
        before = self._callers
        self._use(file)
        return _change(before, self._callers)

    def _use(self, file: KeyFile) -> None:
        self._file = file
        self._callers = {record.hash: self._caller(record) for record in file.keys.values()}
        self._has_tenants = len({caller.tenant for caller in self._callers.values()}) > 1

    def _caller(self, record: KeyRecord) -> Caller:
        """With this worker's part of the limits."""
        share, streams, requests = self._share, record.max_streams, record.requests_per_minute
        return Caller(
            name=record.name,
            tenant=record.tenant,
            key=record.hash,
            priority=record.priority,
            max_streams=None if streams is None else share.of(streams),
            requests_per_minute=None if requests is None else share.of(requests),
            tokens_per_second=share.of_rate(record.tokens_per_second),
            expires_s=record.expires_s,
            is_admin=record.scope == ADMIN,
        )


def key_in(headers: Mapping[str, str]) -> str | None:
    """The API key of a request: a bearer token, `x-api-key` or a WebSocket subprotocol."""
    kind, _, key = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and key.strip():
        return key.strip()
    if key := headers.get("x-api-key", "").strip():
        return key
    for name in headers.get("sec-websocket-protocol", "").split(","):
        if name.strip().startswith(SUBPROTOCOL):
            return name.strip().removeprefix(SUBPROTOCOL)
    return None


def has_expired(caller: Caller) -> bool:
    return caller.expires_s is not None and time.time() >= caller.expires_s


def _change(before: Mapping[str, Caller], after: Mapping[str, Caller]) -> KeyChange:
    keys = frozenset(before.keys() - after.keys())
    added = (after[key].name for key in after.keys() - before.keys())
    revoked = (before[key].name for key in keys)
    return KeyChange(tuple(sorted(added)), tuple(sorted(revoked)), keys)


def _signature(path: Path) -> tuple[int, int, int] | None:
    """Changes when the file is replaced or written."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
