"""What a deployment has accepted from its channel, and whether it accepts the next document.

arbitrary software   a threshold of keys has signed the document, which names every digest
roll-back            versions never fall, and one version has one content
mix and match        one document names all artifacts
freeze               an expired document changes nothing; what runs goes on
wrong clock          "now" is the latest of the clock, this release and the newest document
fast-forward         versions rise by at most 2^32, so that they cannot be used up
stolen keys          keys change by a statement that old and new keys have signed

A clock that is right shows no earlier time than the release of this version. `make wheel` writes
the date into the wheel; a checkout has none, so there every time is possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from torvyn._artifact.oci import digest_of
from torvyn._artifact.signature import Envelope
from torvyn._deploy import channel as fields
from torvyn._deploy.channel import PAYLOAD_TYPE, ChannelDocument
from torvyn._deploy.failures import (
    expired_channel,
    forked_channel,
    invalid_channel,
    other_channel,
    other_keys,
    rolled_back_channel,
    skipped_versions,
    untrusted_channel,
)
from torvyn._deploy.publication import KEYS_TYPE, KeyRotation, KeySet, Publication
from torvyn.errors import TorvynError

FILE: Final = Path(__file__).with_name("released.txt")


@cache
def released_s() -> int:
    """Seconds since 1970; 0 if it is not known."""
    try:
        return int(FILE.read_text())
    except (OSError, ValueError):
        return 0


MAX_RISE: Final = 2**32


@dataclass(frozen=True, slots=True)
class ChannelTrust:
    channel: str
    keys: KeySet
    version: int = 0
    """The newest that was accepted."""
    digest: str = ""
    """Of that document."""
    issued_s: int = 0
    """The latest date of issue of an accepted document."""
    expires_s: int | None = None
    min_version: int = 0

    def now_s(self, clock_s: float) -> float:
        """The latest of all times that are known to have passed."""
        return max(clock_s, released_s(), self.issued_s)

    def stale_s(self, clock_s: float) -> float:
        """For how long the accepted document has been expired."""
        expires_s = self.expires_s
        return 0.0 if expires_s is None else max(0.0, self.now_s(clock_s) - expires_s)

    def pinned(self, keys: KeySet, *, may_replace: bool = False) -> ChannelTrust:
        """With the keys that a person has named. Other keys than those that are trusted are refused
        unless they may replace them; then versions still never fall, and dates start afresh, as
        after a change of keys."""
        if keys.is_same(self.keys):
            return self
        if not may_replace:
            raise other_keys(self.channel, self.keys, keys)
        return replace(self, keys=keys, issued_s=0, expires_s=None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.channel,
            "keys": self.keys.pems,
            "threshold": self.keys.threshold,
            "step": self.keys.step,
            "version": self.version,
            "digest": self.digest,
            "issued_s": self.issued_s,
            "expires_s": self.expires_s,
            "min_version": self.min_version,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> ChannelTrust:
        """Raises `ValueError` for anything but `to_dict`."""
        pems = [str(pem) for pem in fields.items(value, "keys", 16)]
        keys = KeySet.of(
            pems, fields.number(value, "threshold", 1), fields.number(value, "step", 1)
        )
        expires_s = value.get("expires_s")
        return cls(
            fields.name(value, "name"),
            keys,
            fields.number(value, "version"),
            fields.text(value, "digest"),
            fields.number(value, "issued_s"),
            None if expires_s is None else fields.number(value, "expires_s"),
            fields.number(value, "min_version"),
        )


def accept(
    data: bytes, trust: ChannelTrust, clock_s: float
) -> tuple[ChannelDocument, ChannelTrust]:
    """The verified document of a publication, and what is trusted from now on. Raises a
    `TorvynError` if anything speaks against it; then nothing has changed."""
    publication = Publication.parse(data)
    for rotation in publication.rotations:
        trust = _rotate(trust, rotation)
    payload = _verified(publication.document, PAYLOAD_TYPE, trust.keys)
    document = ChannelDocument.parse(payload)
    if document.channel != trust.channel:
        raise other_channel(document.channel, trust.channel)
    digest = digest_of(payload)
    _check_version(document, digest, trust)
    trust = replace(
        trust,
        version=document.version,
        digest=digest,
        issued_s=max(trust.issued_s, document.issued_s),
        expires_s=document.expires_s,
        min_version=max(trust.min_version, document.min_version),
    )
    if (stale_s := trust.stale_s(clock_s)) > 0:
        raise expired_channel(document.channel, document.version, stale_s)
    return document, trust


def _check_version(document: ChannelDocument, digest: str, trust: ChannelTrust) -> None:
    version, seen = document.version, trust.version
    if version < seen:
        raise rolled_back_channel(document.channel, version, seen)
    if version == seen and digest != trust.digest and trust.digest:
        raise forked_channel(document.channel, version)
    if version > seen + MAX_RISE:
        raise skipped_versions(document.channel, version, seen + MAX_RISE)


def _rotate(trust: ChannelTrust, envelope: Envelope) -> ChannelTrust:
    """Follows one change of keys. Those of earlier steps are behind us."""
    if envelope.payload_type != KEYS_TYPE:
        raise invalid_channel(f"a change of keys has the type `{envelope.payload_type}`")
    # Only what is signed by the keys that are trusted now is believed; parsing comes first because
    # the statement says which step it is, and by which new keys it must be signed too.
    rotation = KeyRotation.parse(envelope.payload)
    if rotation.keys.step <= trust.keys.step:
        return trust
    if rotation.keys.step != trust.keys.step + 1:
        raise invalid_channel(f"the change of keys number {trust.keys.step + 1} is missing")
    for keys in (trust.keys, rotation.keys):
        _verified(envelope, KEYS_TYPE, keys)
    if rotation.channel != trust.channel:
        raise other_channel(rotation.channel, trust.channel)
    # Stolen keys may have dated a document far into the future; the new keys start afresh.
    return replace(trust, keys=rotation.keys, issued_s=rotation.issued_s)


def _verified(envelope: Envelope, payload_type: str, keys: KeySet) -> bytes:
    try:
        return envelope.verified_payload(payload_type, keys.keys, keys.threshold)
    except TorvynError as error:
        raise untrusted_channel(error.message) from None
