"""What a channel publishes, as bytes: the signed document, and all changes of its keys.

A device that was away for years finds every change of keys here, and follows them one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torvyn.artifact.json_form import canonical
from torvyn.artifact.signature.dsse import MAX_SIGNATURES, Envelope
from torvyn.artifact.signature.keys import PublicKey
from torvyn.edge.channel import fields
from torvyn.edge.failures import invalid_channel
from torvyn.errors import TorvynError

KEYS_TYPE: Final = "application/vnd.torvyn.channel-keys.v1+json"
MAX_BYTES: Final = 1024 * 1024
MAX_ROTATIONS: Final = 64


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of a channel. Each change of keys is a step."""

    keys: tuple[PublicKey, ...]
    threshold: int = 1
    step: int = 1

    @classmethod
    def of(cls, pems: list[str], threshold: int, step: int) -> KeySet:
        """Raises `ValueError` unless that many different keys can sign."""
        try:
            keys = tuple(PublicKey.parse(pem.encode(), "key") for pem in pems)
        except TorvynError as error:
            raise ValueError(error.message) from None
        if len(set(keys)) != len(keys):
            raise ValueError("the same key is named twice")
        if not 0 < threshold <= len(keys) <= MAX_SIGNATURES:
            raise ValueError(f"{threshold} of {len(keys)} keys is not a threshold")
        return cls(keys, threshold, step)

    def __str__(self) -> str:
        """For people: `2 of the keys 3f2a51c09d7e, 99aa01b2c3d4`."""
        ids = ", ".join(sorted(key.id[:12] for key in self.keys))
        return f"the key {ids}" if len(self.keys) == 1 else f"{self.threshold} of the keys {ids}"

    def is_same(self, other: KeySet) -> bool:
        """Whether the same signatures are enough for both, whatever led to them."""
        return (set(self.keys), self.threshold) == (set(other.keys), other.threshold)

    @property
    def pems(self) -> list[str]:
        return [key.pem.decode() for key in self.keys]


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """A change of keys: what both the old and the new keys sign."""

    channel: str
    issued_s: int
    keys: KeySet

    @classmethod
    def parse(cls, data: bytes) -> KeyRotation:
        try:
            value = fields.parse(data, MAX_BYTES)
            fields.check_schema(value)
            pems = [str(pem) for pem in fields.items(value, "keys", MAX_SIGNATURES)]
            threshold = fields.number(value, "threshold", 1, MAX_SIGNATURES)
            keys = KeySet.of(pems, threshold, fields.number(value, "step", 2))
            return cls(fields.name(value, "channel"), fields.time_s(value, "issued"), keys)
        except ValueError as error:
            raise invalid_channel(f"a change of keys: {error}") from None

    def serialize(self) -> bytes:
        return canonical(
            {
                "schema": 1,
                "channel": self.channel,
                "issued": fields.render_time(self.issued_s),
                "step": self.keys.step,
                "threshold": self.keys.threshold,
                "keys": self.keys.pems,
            }
        )


@dataclass(frozen=True, slots=True)
class Publication:
    document: Envelope
    rotations: tuple[Envelope, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> Publication:
        """Nothing of it is trusted yet."""
        try:
            value = fields.parse(data, MAX_BYTES)
            fields.check_schema(value)
            rotations = value.get("rotations", [])
            if not isinstance(rotations, list) or len(rotations) > MAX_ROTATIONS:
                raise ValueError(f"`rotations` is not a list of at most {MAX_ROTATIONS}")
            document = _envelope(fields.table(value, "document"))
            return cls(document, tuple(_envelope(each) for each in rotations))
        except ValueError as error:
            raise invalid_channel(str(error)) from None

    def serialize(self) -> bytes:
        rotations = [each.to_record() for each in self.rotations]
        value = {"schema": 1, "document": self.document.to_record(), "rotations": rotations}
        return canonical(value) + b"\n"


def _envelope(value: Mapping[str, Any] | Any) -> Envelope:
    try:
        return Envelope.of(value)
    except TorvynError as error:
        raise ValueError(error.message) from None
