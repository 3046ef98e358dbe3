"""One key as it is kept: a name, a hash and limits. Checked, because people edit files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from torvyn.manifest.schema.tables import PRIORITIES

PREFIX: Final = "tvk_"
"""What every key begins with, so that a scanner for secrets knows one that it sees."""
# Names stand in logs, in the audit and on terminals: nothing in them can be obeyed there. And a
# key that is mistaken for its name is refused before it is written down.
_NAME: Final = re.compile(rf"(?!{PREFIX})[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_MOST: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    name: str
    hash: str
    tenant: str
    """Whose it is: keys of one tenant see each other's streams, and nobody else does."""
    created: str
    expires: str | None = None
    max_streams: int | None = None
    requests_per_minute: int | None = None
    tokens_per_second: float | None = None
    priority: str | None = None
    """The highest that its requests may ask for."""

    @property
    def id(self) -> str:
        """What may be shown of the hash, to tell keys apart."""
        return self.hash[:8]

    @property
    def expires_s(self) -> float | None:
        """When it ends, in seconds of the epoch."""
        return None if self.expires is None else datetime.fromisoformat(self.expires).timestamp()


_FIELDS: Final = frozenset(field.name for field in fields(KeyRecord))


def record_of(given: Any) -> KeyRecord:
    """The record, or a `ValueError` that says what is wrong. The tenant is the key's own name
    unless another was given."""
    if not isinstance(given, Mapping):
        raise ValueError("a key is not an object")
    if unknown := given.keys() - _FIELDS:
        raise ValueError(f"a key has a field {min(unknown)[:64]!r} that means nothing")
    made = {"tenant": given.get("name"), **given}
    for label in ("name", "tenant"):
        if not isinstance(made.get(label), str) or not _NAME.fullmatch(made[label]):
            raise ValueError(
                f"the {label} of a key is made of up to 64 letters, digits, `.`, `_` and `-`, "
                "and does not begin as a key does"
            )
    _check(made)
    return KeyRecord(**made)


def _check(made: Mapping[str, Any]) -> None:
    name = made["name"]
    if not isinstance(made.get("hash"), str) or not _HASH.fullmatch(made["hash"]):
        raise ValueError(f"the hash of `{name}` is damaged")
    for label in ("created", "expires"):
        if made.get(label) is not None or label == "created":
            _check_moment(name, label, made.get(label))
    for label in ("max_streams", "requests_per_minute", "tokens_per_second"):
        _check_number(name, label, made.get(label))
    if made.get("priority") not in (None, *PRIORITIES):
        raise ValueError(f"`priority` of `{name}` is one of {', '.join(PRIORITIES)}")


def _check_moment(name: str, label: str, text: Any) -> None:
    try:
        is_good = datetime.fromisoformat(text).tzinfo is not None
    except (TypeError, ValueError):
        is_good = False
    if not is_good:
        raise ValueError(f"`{label}` of `{name}` is no time with its zone")


def _check_number(name: str, label: str, value: Any) -> None:
    kinds = (int, float) if label == "tokens_per_second" else int
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= _MOST:
        raise ValueError(f"`{label}` of `{name}` is a number above 0")
