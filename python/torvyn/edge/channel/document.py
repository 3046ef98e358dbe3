"""The document of a channel. Unknown fields are ignored, so that later versions can add some."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torvyn.artifact.json_form import canonical
from torvyn.artifact.model import MAX_ARTIFACT_BYTES, Digest, check_digest
from torvyn.edge.channel import fields
from torvyn.edge.channel.requirement import Requirement
from torvyn.edge.failures import invalid_channel, unknown_artifact
from torvyn.errors import TorvynError

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
    torvyn: Requirement = Requirement(())  # noqa: RUF009
    """Which versions of torvyn run it."""

    @classmethod
    def parse(cls, value: Any) -> ArtifactEntry:
        if not isinstance(value, Mapping):
            raise ValueError("an artifact is not an object")
        try:
            digest = check_digest(fields.text(value, "digest"))
        except TorvynError as error:
            raise ValueError(error.message) from None
        requirement = fields.text(value, "torvyn", 128) if "torvyn" in value else ""
        size = fields.number(value, "size", 1, MAX_ARTIFACT_BYTES)
        return cls(fields.name(value, "name"), digest, size, Requirement.parse(requirement))

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
        salt = fields.text(value, "salt", 128) if "salt" in value else ""
        return cls(fields.number(value, "percent", 0, 100), salt)

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
            return cls._of(fields.parse(data, MAX_BYTES))
        except ValueError as error:
            raise invalid_channel(str(error)) from None

    @classmethod
    def _of(cls, value: dict[str, Any]) -> ChannelDocument:
        fields.check_schema(value)
        entries = [ArtifactEntry.parse(x) for x in fields.items(value, "artifacts", MAX_ARTIFACTS)]
        if len({entry.name for entry in entries}) != len(entries):
            raise ValueError("two of its artifacts have the same name")
        version = fields.number(value, "version", 1)
        least = fields.number(value, "min_version", 0, version) if "min_version" in value else 0
        rollout = Rollout.parse(fields.table(value, "rollout")) if "rollout" in value else Rollout()
        issued_s = fields.time_s(value, "issued")
        expires_s = fields.time_s(value, "expires") if "expires" in value else None
        if expires_s is not None and expires_s <= issued_s:
            raise ValueError("it expires before it was issued")
        channel = fields.name(value, "channel")
        return cls(channel, version, issued_s, tuple(entries), expires_s, least, rollout)

    def serialize(self) -> bytes:
        value: dict[str, Any] = {
            "schema": 1,
            "channel": self.channel,
            "version": self.version,
            "issued": fields.render_time(self.issued_s),
            "min_version": self.min_version,
            "artifacts": [entry.to_dict() for entry in self.artifacts],
            "rollout": self.rollout.to_dict(),
        }
        if self.expires_s is not None:
            value["expires"] = fields.render_time(self.expires_s)
        return canonical(value)

    def artifact(self, name: str = "") -> ArtifactEntry:
        """The artifact of that name; without one, the only one."""
        found = [entry for entry in self.artifacts if name in ("", entry.name)]
        if len(found) != 1:
            raise unknown_artifact(name, [entry.name for entry in self.artifacts])
        return found[0]
