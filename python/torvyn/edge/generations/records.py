"""What is known about a generation: where it came from, and which artifact it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

PROJECT: Final = "project"
"""The folder of the unpacked artifact inside that of a generation."""
_ARTIFACT: Final = "artifact.json"


class Facts(TypedDict, total=False):
    """What may be known about a new generation; see `GenerationRecord`."""

    version: int | None
    channel: str
    title: str
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class GenerationRecord:
    number: int
    digest: str
    """Of the artifact's manifest."""
    source: str
    """The reference that a person or a channel gave."""
    added: str
    """When, in UTC."""
    version: int | None = None
    """The version of the channel that named it; None if a person added it."""
    channel: str = ""
    """The name of that channel."""
    title: str = ""
    """The name and the version of the project."""
    is_trusted: bool = False
    """Whether a trusted key has signed it, or it was packed here: its precompiled code is used."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> GenerationRecord:
        """Raises `KeyError`, `TypeError` or `ValueError` for anything but `to_dict`."""
        version = value["version"]
        return cls(
            number=int(value["number"]),
            digest=str(value["digest"]),
            source=str(value["source"]),
            added=str(value["added"]),
            version=None if version is None else int(version),
            channel=str(value.get("channel", "")),
            title=str(value["title"]),
            is_trusted=value.get("is_trusted") is True,
        )


def manifest_of(folder: Path) -> Path:
    """The manifest of the generation in a folder."""
    return folder / PROJECT / "Torvyn.toml"


def artifact_of(folder: Path) -> Path:
    """The manifest of the artifact, with the digests of its files. Generations that were not
    unpacked from one have none."""
    return folder / _ARTIFACT
