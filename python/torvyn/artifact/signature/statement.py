"""The statement that a signature of an artifact signs: an in-toto Statement with its digest.

Its type is that of cosign, so that cosign verifies our signatures and we verify cosign's. cosign
ignores the fields of the predicate; we use `signedAt` and `expiresAt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from torvyn.artifact.failures import invalid
from torvyn.artifact.json_form import canonical, parse_object

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://sigstore.dev/cosign/sign/v1"
LIMIT_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Statement:
    digest: str
    """Of the artifact's manifest: `sha256:...`"""
    signed_at: datetime | None = None
    expires_at: datetime | None = None

    @classmethod
    def parse(cls, payload: bytes) -> Statement:
        """Raises `artifact.invalid`. Call it only with a payload whose signature is verified."""
        record = parse_object(payload, "the statement", LIMIT_BYTES)
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
