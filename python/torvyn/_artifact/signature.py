"""One signature of an artifact: a statement in a DSSE envelope in a Sigstore bundle.

The statement is in-toto's, with the digest of the artifact and the type of cosign, so that cosign
verifies our signatures and we verify cosign's. cosign ignores the fields of the predicate; we use
`signedAt` and `expiresAt`.

A signature of the envelope covers `DSSEv1 <length> <type> <length> <payload>`, so a payload of one
type cannot be passed off as another, and the payload is parsed only after it is verified. See
https://github.com/secure-systems-lab/dsse.

The bundle is stored beside the artifact. That of a key has no certificate and needs no transparency
log. Its `hint` only helps people to find the key: the keys that verify are those of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from torvyn._artifact.keys import PublicKey, SigningKey, decode_base64, encode_base64
from torvyn._artifact.oci import canonical, invalid, parse_object
from torvyn.errors import ArtifactError

PREDICATE_TYPE: Final = "https://sigstore.dev/cosign/sign/v1"

STATEMENT_LIMIT_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Statement:
    digest: str
    """Of the artifact's manifest: `sha256:...`"""
    signed_at: datetime | None = None
    expires_at: datetime | None = None

    @classmethod
    def parse(cls, payload: bytes) -> Statement:
        """Raises `artifact.invalid`. Call it only with a payload whose signature is verified."""
        record = parse_object(payload, "the statement", STATEMENT_LIMIT_BYTES)
        if record.get("_type") != STATEMENT_TYPE:
            raise invalid("the signed text is not an in-toto statement")
        if record.get("predicateType") != PREDICATE_TYPE:
            found = record.get("predicateType")
            shown = ascii(found[:100])[1:-1] if isinstance(found, str) else "unknown"
            raise invalid(f"the statement is of type `{shown}`, not a signature")
        predicate = record.get("predicate")
        predicate = predicate if isinstance(predicate, Mapping) else {}
        signed_at = _time(predicate.get("signedAt"))
        return cls(_digest(record.get("subject")), signed_at, _time(predicate.get("expiresAt")))

    def encode(self) -> bytes:
        times = {"signedAt": self.signed_at, "expiresAt": self.expires_at}
        algorithm, _, value = self.digest.partition(":")
        record: dict[str, Any] = {
            "_type": STATEMENT_TYPE,
            "subject": [{"digest": {algorithm: value}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {key: _text(time) for key, time in times.items() if time is not None},
        }
        return canonical(record)


def _digest(subjects: object) -> str:
    """Of the only subject: a statement about several artifacts could hide one among them."""
    if not isinstance(subjects, list) or len(subjects) != 1:
        raise invalid("the statement does not have exactly one subject")
    digests = subjects[0].get("digest") if isinstance(subjects[0], Mapping) else None
    value = digests.get("sha256") if isinstance(digests, Mapping) else None
    if not isinstance(value, str):
        raise invalid("the subject of the statement has no SHA-256 digest")
    return f"sha256:{value}"


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: object) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise invalid("a time of the statement is not one with a time zone")
    return time


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


MAX_SIGNATURES: Final = 16

PAYLOAD_LIMIT_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Envelope:
    payload_type: str
    payload: bytes
    signatures: tuple[bytes, ...]

    @classmethod
    def sign(cls, payload_type: str, payload: bytes, keys: Iterable[SigningKey]) -> Envelope:
        data = signed_bytes(payload_type, payload)
        return cls(payload_type, payload, tuple(key.sign(data) for key in keys))

    @classmethod
    def parse(cls, data: bytes, limit_bytes: int = PAYLOAD_LIMIT_BYTES) -> Envelope:
        """Raises `artifact.invalid`. An envelope that can be parsed is not yet trusted."""
        return cls.of(parse_object(data, "the DSSE envelope", limit_bytes))

    @classmethod
    def of(cls, record: object) -> Envelope:
        """The envelope in JSON that is already parsed."""
        if not isinstance(record, Mapping):
            raise invalid("the DSSE envelope is not a JSON object")
        payload_type, signatures = record.get("payloadType"), record.get("signatures")
        if not isinstance(payload_type, str):
            raise invalid("the DSSE envelope has no `payloadType`")
        if not isinstance(signatures, list) or not 0 < len(signatures) <= MAX_SIGNATURES:
            raise invalid(f"the DSSE envelope does not have 1 to {MAX_SIGNATURES} signatures")
        payload = decode_base64(record.get("payload"), "the payload of the DSSE envelope")
        return cls(payload_type, payload, tuple(_signature(each) for each in signatures))

    def to_record(self) -> dict[str, Any]:
        signatures = [{"sig": encode_base64(each)} for each in self.signatures]
        payload = encode_base64(self.payload)
        return {"payload": payload, "payloadType": self.payload_type, "signatures": signatures}

    def encode(self) -> bytes:
        return canonical(self.to_record())

    def signers(self, keys: Iterable[PublicKey]) -> frozenset[PublicKey]:
        """Those of the keys that signed. A key counts once, however many signatures it made."""
        data = signed_bytes(self.payload_type, self.payload)
        return frozenset(
            key for key in keys if any(key.has_signed(data, each) for each in self.signatures)
        )

    def verified_payload(
        self, payload_type: str, keys: Iterable[PublicKey], threshold: int = 1
    ) -> bytes:
        """The payload, if at least `threshold` of the keys signed it as that type."""
        if self.payload_type != payload_type:
            message = f"the signed data is of type `{self.payload_type}`, not `{payload_type}`"
            raise invalid(message)
        count = len(self.signers(keys))
        if count < max(1, threshold):
            message = f"{count} of the trusted keys signed it; {max(1, threshold)} must"
            raise ArtifactError("artifact.signature-untrusted", message)
        return self.payload


def signed_bytes(payload_type: str, payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _signature(record: object) -> bytes:
    if not isinstance(record, Mapping):
        raise invalid("a signature of the DSSE envelope is not a JSON object")
    return decode_base64(record.get("sig"), "a signature of the DSSE envelope")


PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
