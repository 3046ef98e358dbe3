"""The document of a channel, its fields, and which versions of torvyn an artifact runs on.

Unknown fields are ignored, so that later versions can add some. Errors of fields are `ValueError`s
that name the field.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from torvyn._artifact.oci import MAX_ARTIFACT_BYTES, Digest, canonical, check_digest, parse_object
from torvyn._deploy.failures import invalid_channel, unknown_artifact
from torvyn.errors import TorvynError

_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}

_PART: Final = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d{1,9}(?:\.\d{1,9}){0,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requirement:
    parts: tuple[tuple[str, tuple[int, ...]], ...]
    """A comparison and a version each; all of them must hold."""

    @classmethod
    def parse(cls, text: str) -> Requirement:
        parts = []
        for part in filter(None, (each.strip() for each in text.split(","))):
            found = _PART.fullmatch(part)
            if found is None:
                raise ValueError(f"`{part}` is not a requirement such as `>=0.3`")
            parts.append((found[1], tuple(int(digits) for digits in found[2].split("."))))
        return cls(tuple(parts))

    def allows(self, version: str) -> bool:
        """What follows the numbers of a version, such as `rc1`, is ignored."""
        digits = re.match(r"\d+(?:\.\d+)*", version)
        own = tuple(int(part) for part in digits[0].split(".")) if digits else ()
        return all(_COMPARE[sign](_order(own, other), 0) for sign, other in self.parts)

    def __str__(self) -> str:
        return ",".join(f"{sign}{'.'.join(map(str, version))}" for sign, version in self.parts)


def _order(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """-1, 0 or 1; missing numbers are 0, so that 1.2 is 1.2.0."""
    length = max(len(one), len(other))
    first, second = (each + (0,) * (length - len(each)) for each in (one, other))
    return (first > second) - (first < second)


PAYLOAD_TYPE: Final = "application/vnd.torvyn.channel.v1+json"

MAX_BYTES: Final = 256 * 1024

MAX_ARTIFACTS: Final = 256

_BUCKETS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ArtifactEntry:
    name: str
    digest: Digest
    """Of its manifest."""
    size: int
    """The bytes of its manifest and all its layers: the most that is downloaded."""
    torvyn: Requirement = Requirement(())
    """Which versions of torvyn run it."""

    @classmethod
    def parse(cls, value: Any) -> ArtifactEntry:
        if not isinstance(value, Mapping):
            raise ValueError("an artifact is not an object")
        try:
            digest = check_digest(text(value, "digest"))
        except TorvynError as error:
            raise ValueError(error.message) from None
        requirement = text(value, "torvyn", 128) if "torvyn" in value else ""
        size = number(value, "size", 1, MAX_ARTIFACT_BYTES)
        return cls(name(value, "name"), digest, size, Requirement.parse(requirement))

    def to_dict(self) -> dict[str, Any]:
        required = {"torvyn": str(self.torvyn)} if self.torvyn.parts else {}
        return {"name": self.name, "digest": self.digest, "size": self.size, **required}


@dataclass(frozen=True, slots=True)
class Rollout:
    """Which devices take part: those whose bucket is below the share."""

    percent: int = 100
    salt: str = ""

    def includes(self, device: str) -> bool:
        """The same device answers alike until the salt changes; a larger share includes the
        devices of a smaller one."""
        text = f"{len(self.salt)}:{self.salt}{device}"
        bucket = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % _BUCKETS
        return bucket * 100 < self.percent * _BUCKETS

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Rollout:
        salt = text(value, "salt", 128) if "salt" in value else ""
        return cls(number(value, "percent", 0, 100), salt)

    def to_dict(self) -> dict[str, Any]:
        return {"percent": self.percent, "salt": self.salt}


@dataclass(frozen=True, slots=True)
class ChannelDocument:
    channel: str
    version: int
    """Rises with every document."""
    issued_s: int
    artifacts: tuple[ArtifactEntry, ...]
    """All artifacts of the channel: parts of two documents are never mixed."""
    expires_s: int | None = None
    min_version: int = 0
    """Earlier versions must not run any more."""
    rollout: Rollout = Rollout()

    @classmethod
    def parse(cls, data: bytes) -> ChannelDocument:
        try:
            return cls._of(parse(data, MAX_BYTES))
        except ValueError as error:
            raise invalid_channel(str(error)) from None

    @classmethod
    def _of(cls, value: dict[str, Any]) -> ChannelDocument:
        check_schema(value)
        entries = [ArtifactEntry.parse(x) for x in items(value, "artifacts", MAX_ARTIFACTS)]
        if len({entry.name for entry in entries}) != len(entries):
            raise ValueError("two of its artifacts have the same name")
        version = number(value, "version", 1)
        least = number(value, "min_version", 0, version) if "min_version" in value else 0
        rollout = Rollout.parse(table(value, "rollout")) if "rollout" in value else Rollout()
        issued_s = time_s(value, "issued")
        expires_s = time_s(value, "expires") if "expires" in value else None
        if expires_s is not None and expires_s <= issued_s:
            raise ValueError("it expires before it was issued")
        channel = name(value, "channel")
        return cls(channel, version, issued_s, tuple(entries), expires_s, least, rollout)

    def serialize(self) -> bytes:
        value: dict[str, Any] = {
            "schema": 1,
            "channel": self.channel,
            "version": self.version,
            "issued": render_time(self.issued_s),
            "min_version": self.min_version,
            "artifacts": [entry.to_dict() for entry in self.artifacts],
            "rollout": self.rollout.to_dict(),
        }
        if self.expires_s is not None:
            value["expires"] = render_time(self.expires_s)
        return canonical(value)

    def artifact(self, name: str = "") -> ArtifactEntry:
        """The artifact of that name; without one, the only one."""
        found = [entry for entry in self.artifacts if name in ("", entry.name)]
        if len(found) != 1:
            raise unknown_artifact(name, [entry.name for entry in self.artifacts])
        return found[0]


MAX_NUMBER: Final = 2**63 - 1

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def parse(data: bytes, limit_bytes: int) -> dict[str, Any]:
    """A JSON object from outside."""
    try:
        return parse_object(data, "it", limit_bytes)
    except TorvynError as error:
        raise ValueError(error.message) from None


def number(value: Mapping[str, Any], key: str, least: int = 0, most: int = MAX_NUMBER) -> int:
    found = value.get(key)
    # `True` is an `int` in Python, and a float loses digits in other languages.
    if type(found) is not int or not least <= found <= most:
        raise ValueError(f"`{key}` is not a whole number from {least} to {most}")
    return found


def text(value: Mapping[str, Any], key: str, most: int = 4096) -> str:
    found = value.get(key)
    if not isinstance(found, str) or len(found) > most:
        raise ValueError(f"`{key}` is not a text of at most {most} characters")
    return found


def name(value: Mapping[str, Any], key: str) -> str:
    found = text(value, key, 128)
    if not _NAME.fullmatch(found):
        raise ValueError(f"`{key}` is not a name of lower-case letters, digits, `.`, `_` and `-`")
    return found


def table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    if not isinstance(found, Mapping):
        raise ValueError(f"`{key}` is not an object")
    return found


def items(value: Mapping[str, Any], key: str, most: int) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list) or not 0 < len(found) <= most:
        raise ValueError(f"`{key}` is not a list of 1 to {most} items")
    return found


def time_s(value: Mapping[str, Any], key: str) -> int:
    """Seconds since 1970, of a time in UTC."""
    found = text(value, key, 20)
    if not _TIME.fullmatch(found):
        raise ValueError(f"`{key}` is not a time such as 2026-01-31T12:00:00Z")
    return int(datetime.strptime(found, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def render_time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_schema(value: Mapping[str, Any]) -> None:
    if number(value, "schema") != 1:
        raise ValueError("it needs a newer version of torvyn")
