"""One signature of an artifact as a Sigstore bundle: what is stored beside the artifact.

A bundle of a key has no certificate and needs no transparency log. Its `hint` only helps people to
find the key: the keys that verify are those of the policy.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from torvyn.artifact.failures import invalid
from torvyn.artifact.json_form import canonical, parse_object
from torvyn.artifact.signature.dsse import Envelope
from torvyn.artifact.signature.keys import SigningKey
from torvyn.artifact.signature.statement import PAYLOAD_TYPE, PREDICATE_TYPE, Statement

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
ANNOTATIONS: Final = {
    "dev.sigstore.bundle.content": "dsse-envelope",
    "dev.sigstore.bundle.predicateType": PREDICATE_TYPE,
}
"""Of the manifest that refers to the artifact, and of its entry in a list of referrers."""
LIMIT_BYTES: Final = 256 * 1024


def sign(
    digest: str,
    key: SigningKey,
    *,
    signed_at: datetime | None = None,
    expires_at: datetime | None = None,
) -> bytes:
    """The bundle with a signature of the artifact whose manifest has that digest."""
    statement = Statement(digest, signed_at, expires_at).encode()
    envelope = Envelope.sign(PAYLOAD_TYPE, statement, [key])
    record: dict[str, Any] = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key.public.hint}},
        "dsseEnvelope": envelope.to_record(),
    }
    return canonical(record)


def parse(data: bytes) -> tuple[Envelope, str]:
    """The envelope of a bundle and the hint to its key. Raises `artifact.invalid`."""
    record = parse_object(data, "the signature", LIMIT_BYTES)
    if record.get("mediaType") != MEDIA_TYPE:
        raise invalid(f"the signature is not of type {MEDIA_TYPE}")
    material = record.get("verificationMaterial")
    key = material.get("publicKey") if isinstance(material, dict) else None
    hint = key.get("hint") if isinstance(key, dict) else None
    return Envelope.of(record.get("dsseEnvelope")), hint if isinstance(hint, str) else ""
