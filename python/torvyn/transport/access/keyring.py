"""The keyring: the key file as a running server knows it.

A change of the file is noticed within a second or so, by the requests that come or by whoever calls
`refresh`. A file that cannot be read any more changes nothing: the keys that were known stay.
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
from torvyn.transport.access.key_record import KeyRecord

logger = logging.getLogger("torvyn.transport")

LOOK_S: Final = 1.0
"""How often the file is looked at, at most."""
SUBPROTOCOL: Final = "torvyn.key."
"""How a page hands a key over: a WebSocket of a browser has no headers of its own."""
_LONGEST: Final = 512


@dataclass(frozen=True, slots=True)
class Change:
    """The names that came and went, and the hashes of those that went."""

    added: tuple[str, ...]
    gone: tuple[str, ...]
    gone_keys: frozenset[str]


class Keyring:
    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._seen = _signature(path)
        self._looked_s = clock()
        file = key_file.read(path)
        for warning in file.warnings:
            logger.warning(warning)
        self._take(file)

    def __len__(self) -> int:
        return len(self._callers)

    def caller_of(self, key: str) -> Caller | None:
        """Whose key it is, expired or not. The look-up compares hashes: how long it takes tells
        something of a hash that was salted, which leads to no key."""
        return self._callers.get(self.digest(key))

    def digest(self, key: str) -> str:
        return self._file.digest(key[:_LONGEST])

    def known(self, caller: Caller) -> Caller | None:
        """Who came with that key, as the file has it now; None when it may not be used any more,
        or is another tenant's."""
        found = self._callers.get(caller.key)
        if found is None or found.tenant != caller.tenant or is_over(found):
            return None
        return found

    def refresh(self) -> Change | None:
        """Looks at the file, unless that was done a moment ago; what has changed since."""
        now_s = self._clock()
        if now_s - self._looked_s < LOOK_S:
            return None
        self._looked_s = now_s
        seen = _signature(self._path)
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            file = key_file.read(self._path)
        except TorvynError as error:
            logger.error("%s; the keys that were known stay", error.message)
            return None
        before = self._callers
        self._take(file)
        return _change(before, self._callers)

    def _take(self, file: KeyFile) -> None:
        self._file = file
        self._callers = {record.hash: _caller(record) for record in file.keys.values()}


def presented(headers: Mapping[str, str]) -> str | None:
    """The key that a request shows, if any: as a bearer's, in `x-api-key`, or as the subprotocol
    of a WebSocket."""
    kind, _, key = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and key.strip():
        return key.strip()
    if key := headers.get("x-api-key", "").strip():
        return key
    for name in headers.get("sec-websocket-protocol", "").split(","):
        if name.strip().startswith(SUBPROTOCOL):
            return name.strip().removeprefix(SUBPROTOCOL)
    return None


def is_over(caller: Caller) -> bool:
    """Whether the key has expired."""
    return caller.expires_s is not None and time.time() >= caller.expires_s


def _caller(record: KeyRecord) -> Caller:
    return Caller(
        name=record.name,
        tenant=record.tenant,
        key=record.hash,
        priority=record.priority,
        max_streams=record.max_streams,
        requests_per_minute=record.requests_per_minute,
        tokens_per_second=record.tokens_per_second,
        expires_s=record.expires_s,
    )


def _change(before: Mapping[str, Caller], after: Mapping[str, Caller]) -> Change:
    keys = frozenset(before.keys() - after.keys())
    added = (after[key].name for key in after.keys() - before.keys())
    gone = (before[key].name for key in keys)
    return Change(tuple(sorted(added)), tuple(sorted(gone)), keys)


def _signature(path: Path) -> tuple[int, int, int] | None:
    """What differs when the file was replaced or written."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
