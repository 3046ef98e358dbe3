"""One API key in the key file: name, hash and limits. Checked, because people edit files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from torvyn._manifest.records import PRIORITIES

PREFIX: Final = "tvk_"
"""Every key starts with it, so secret scanners recognise keys."""
# Names appear in logs, in the audit log and on terminals, so they contain no control characters.
# A key that is passed as a name is rejected before it is written anywhere.
_NAME: Final = re.compile(rf"(?!{PREFIX})[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_MAX: Final = 1_000_000_000
ADMIN: Final = "admin"
SCOPES: Final = ("inference", ADMIN)
"""An admin key may also see what the server does for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    name: str
    hash: str
    tenant: str
    """Keys of one tenant see each other's streams, and no others."""
    created: str
    expires: str | None = None
    max_streams: int | None = None
    requests_per_minute: int | None = None
    tokens_per_second: float | None = None
    priority: str | None = None
    """The highest priority of its requests."""
    scope: str | None = None
    """What it may do; None: requests of its own."""

    @property
    def id(self) -> str:
        """The part of the hash that is shown, to tell keys apart."""
        return self.hash[:8]

    @property
    def expires_s(self) -> float | None:
        """When it expires, in seconds since the epoch."""
        return None if self.expires is None else datetime.fromisoformat(self.expires).timestamp()


_FIELDS: Final = frozenset(field.name for field in fields(KeyRecord))


def parse_record(value: Any) -> KeyRecord:
    """The record, or a `ValueError` that says what is wrong. The tenant is the name of the key
    unless the record has another."""
    if not isinstance(value, Mapping):
        raise ValueError("a key is not an object")
    if unknown := value.keys() - _FIELDS:
        raise ValueError(f"a key has the unknown field {min(unknown)[:64]!r}")
    fields = {"tenant": value.get("name"), **value}
    for label in ("name", "tenant"):
        if not isinstance(fields.get(label), str) or not _NAME.fullmatch(fields[label]):
            raise ValueError(
                f"the {label} of a key must consist of up to 64 letters, digits, `.`, `_` and `-`, "
                f"and must not start with `{PREFIX}`"
            )
    _check(fields)
    return KeyRecord(**fields)


def _check(fields: Mapping[str, Any]) -> None:
    name = fields["name"]
    if not isinstance(fields.get("hash"), str) or not _HASH.fullmatch(fields["hash"]):
        raise ValueError(f"the hash of `{name}` is damaged")
    for label in ("created", "expires"):
        if fields.get(label) is not None or label == "created":
            _check_time(name, label, fields.get(label))
    for label in ("max_streams", "requests_per_minute", "tokens_per_second"):
        _check_number(name, label, fields.get(label))
    if fields.get("priority") not in (None, *PRIORITIES):
        raise ValueError(f"`priority` of `{name}` must be one of {', '.join(PRIORITIES)}")
    if fields.get("scope") not in (None, *SCOPES):
        raise ValueError(f"`scope` of `{name}` must be one of {', '.join(SCOPES)}")


def _check_time(name: str, label: str, text: Any) -> None:
    try:
        is_valid = datetime.fromisoformat(text).tzinfo is not None
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"`{label}` of `{name}` must be a time with a time zone")


def _check_number(name: str, label: str, value: Any) -> None:
    kinds = (int, float) if label == "tokens_per_second" else int
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= _MAX:
        raise ValueError(f"`{label}` of `{name}` must be a number above 0")
