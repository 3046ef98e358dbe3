"""DSSE: an envelope around a payload and its type, with signatures over both. Pure.

A signature covers `DSSEv1 <length> <type> <length> <payload>`, so a payload of one type cannot be
passed off as another, and the payload is parsed only after it is verified.
See https://github.com/secure-systems-lab/dsse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from torvyn.artifact.failures import invalid
from torvyn.artifact.json_form import canonical, parse_object
from torvyn.artifact.signature.base64_text import decode_base64, encode_base64
from torvyn.artifact.signature.keys import PublicKey, SigningKey
from torvyn.errors import ArtifactError

MAX_SIGNATURES: Final = 16
LIMIT_BYTES: Final = 4 * 1024 * 1024


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
    def parse(cls, data: bytes, limit_bytes: int = LIMIT_BYTES) -> Envelope:
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
