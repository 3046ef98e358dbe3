"""What a channel publishes, as bytes: the signed document, and all changes of its keys.

A device that was away for years finds every change of keys here, and follows them one by one.
Before the next version is signed, a release engineer is told what devices would refuse, and what
they would lose.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from torvyn._artifact.keys import PublicKey, SigningKey
from torvyn._artifact.oci import canonical
from torvyn._artifact.signature import MAX_SIGNATURES, Envelope, signed_bytes
from torvyn._deploy import channel as fields
from torvyn._deploy.channel import PAYLOAD_TYPE, ChannelDocument
from torvyn._deploy.failures import (
    bar_falls,
    dropped_artifacts,
    invalid_channel,
    new_signers,
    other_channel,
    project_falls,
    same_keys,
    untrusted_channel,
    version_falls,
)
from torvyn.errors import Diagnostic, TorvynError

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


def publish(
    document: ChannelDocument, keys: Sequence[SigningKey], before: Publication | None = None
) -> Publication:
    """Signs a document. The changes of keys before it are kept."""
    envelope = Envelope.sign(PAYLOAD_TYPE, document.serialize(), keys)
    return Publication(envelope, () if before is None else before.rotations)


def countersign(publication: Publication, key: SigningKey) -> Publication:
    """Adds the signature of another person."""
    envelope = publication.document
    signature = key.sign(signed_bytes(envelope.payload_type, envelope.payload))
    signatures = tuple(dict.fromkeys((*envelope.signatures, signature)))
    return replace(publication, document=replace(envelope, signatures=signatures))


def rotate(
    publication: Publication,
    old: Sequence[SigningKey],
    new: Sequence[SigningKey],
    *,
    threshold: int,
    issued_s: int,
    others: Sequence[PublicKey] = (),
) -> Publication:
    """Changes the keys: a statement that old and new keys sign, and the document in its next
    version, signed by the new ones. `others` are new keys that do not sign now. Raises an error if
    devices could not follow."""
    document = ChannelDocument.parse(publication.document.payload)
    step = len(publication.rotations) + 2
    keys = KeySet((*(key.public for key in new), *others), threshold, step)
    _check_old(publication, [key.public for key in old], keys)
    statement = KeyRotation(document.channel, issued_s, keys).serialize()
    # What is written must be what devices can read.
    KeyRotation.parse(statement)
    signers = {key.public: key for key in (*old, *new)}
    envelope = Envelope.sign(KEYS_TYPE, statement, signers.values())
    next_document = replace(document, version=document.version + 1, issued_s=issued_s)
    rotated = replace(publication, rotations=(*publication.rotations, envelope))
    return publish(next_document, new, rotated)


def _check_old(publication: Publication, old: Sequence[PublicKey], keys: KeySet) -> None:
    """Whether the old keys may change the keys, as far as the publication says it."""
    if not publication.rotations:
        if not publication.document.signers(old):
            raise untrusted_channel("none of the old keys has signed its last version")
        before = KeySet(tuple(dict.fromkeys(old)), keys.threshold)
    else:
        before = KeyRotation.parse(publication.rotations[-1].payload).keys
        count = len({*before.keys} & {*old})
        if count < before.threshold:
            raise untrusted_channel(f"{count} of {before} are given as old keys")
    if keys.is_same(before):
        raise same_keys()


_NUMBERS: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})*", re.ASCII)


def check_next(
    before: Publication,
    document: ChannelDocument,
    keys: Sequence[PublicKey],
    *,
    dropped: Collection[str] = (),
    may_fall: bool = False,
) -> tuple[Diagnostic, ...]:
    """The warnings about a document that follows another. Raises what devices would refuse or lose
    unless the engineer has said so: `dropped` are artifacts that end here, `may_fall` allows a
    version that is not higher."""
    earlier = ChannelDocument.parse(before.document.payload)
    if document.channel != earlier.channel:
        raise other_channel(document.channel, earlier.channel)
    if document.min_version < earlier.min_version:
        raise bar_falls(document.min_version, earlier.min_version)
    names = {entry.name for entry in document.artifacts}
    lost = [each.name for each in earlier.artifacts if each.name not in {*names, *dropped}]
    if lost:
        raise dropped_artifacts(document.channel, lost)
    falls = version_falls(document.channel, document.version, earlier.version)
    is_falling = document.version <= earlier.version
    if is_falling and not may_fall:
        raise falls
    warnings = [replace(falls.diagnostics[0], severity="warning")] if is_falling else []
    if not _signers(before, keys):
        warnings.append(new_signers(document.channel))
    return tuple(warnings)


def older_project(name: str, version: str, before: str) -> Iterator[Diagnostic]:
    """A warning if the project of an artifact has a lower version than the one before."""
    found, known = (_NUMBERS.match(text) for text in (version, before))
    if found and known and _order(found[0]) < _order(known[0]):
        yield project_falls(name, version, before)


def _signers(before: Publication, keys: Sequence[PublicKey]) -> frozenset[PublicKey]:
    """Those of the keys that devices trust, as far as the publication says it."""
    if before.rotations:
        return frozenset(KeyRotation.parse(before.rotations[-1].payload).keys.keys) & {*keys}
    return before.document.signers(keys)


def _order(version: str) -> tuple[int, ...]:
    parts = tuple(int(part) for part in version.split("."))
    return parts + (0,) * (8 - len(parts))
