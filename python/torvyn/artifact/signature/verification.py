"""Compares the signatures of an artifact with the rule of its source. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from torvyn.artifact.failures import invalid
from torvyn.artifact.signature import bundle
from torvyn.artifact.signature.base64_text import decode_base64
from torvyn.artifact.signature.keys import PublicKey
from torvyn.artifact.signature.policy import Rule
from torvyn.artifact.signature.statement import PAYLOAD_TYPE, Statement
from torvyn.errors import ArtifactError, Diagnostic

MAX_BUNDLES: Final = 32

_CODES: Final = {
    "expired": "artifact.signature-expired",
    "mismatch": "artifact.signature-mismatch",
    "untrusted": "artifact.signature-untrusted",
}
"""What a bundle lacks, the most telling first."""


@dataclass(frozen=True, slots=True)
class BundleResult:
    """What one bundle is worth under a rule."""

    signer: PublicKey | None
    """The trusted key, if the bundle counts."""
    flaw: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether an artifact may be used, and who signed it."""

    source: str
    digest: str
    action: str
    signers: frozenset[PublicKey]
    bundles: tuple[BundleResult, ...]
    problem: Diagnostic | None
    """Why the requirement of the rule is not met."""

    @property
    def is_verified(self) -> bool:
        """Enough trusted keys have signed. False for an artifact that is merely allowed."""
        return self.problem is None

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return (self.problem,) if self.problem and self.action == "warn" else ()

    def enforce(self) -> Verification:
        """Raises the problem if the rule says `reject`."""
        if self.problem is not None and self.action == "reject":
            raise ArtifactError(self.problem.code, self.problem.message, hint=self.problem.hint)
        return self


def verify(
    source: str, digest: str, bundles: Sequence[bytes], rule: Rule, now: datetime | None = None
) -> Verification:
    """Counts the trusted keys that signed the digest. Never raises; see `Verification.enforce`."""
    clock = now or datetime.now(UTC)
    results = tuple(_result(each, digest, rule, clock) for each in bundles[:MAX_BUNDLES])
    signers = frozenset(result.signer for result in results if result.signer is not None)
    problem = None
    if len(signers) < rule.threshold:
        problem = _problem(source, digest, rule, results, len(signers))
    return Verification(source, digest, rule.action, signers, results, problem)


def _result(data: bytes, digest: str, rule: Rule, now: datetime) -> BundleResult:
    try:
        envelope, hint = bundle.parse(data)
    except ArtifactError as error:
        return BundleResult(None, "untrusted", f"a signature cannot be read: {error.message}")
    signers = envelope.signers(rule.keys)
    if not signers or len(envelope.signatures) != 1:
        return BundleResult(None, "untrusted", f"a signature is by {_key(hint)}, not a trusted one")
    signer = next(iter(signers))
    by = f"the signature of {signer.name}"
    try:
        if envelope.payload_type != PAYLOAD_TYPE:
            raise invalid("the signed text is of another type")
        statement = Statement.parse(envelope.payload)
    except ArtifactError as error:
        return BundleResult(None, "mismatch", f"{by} does not sign an artifact: {error.message}")
    if statement.digest != digest:
        return BundleResult(None, "mismatch", f"{by} is for another artifact, {statement.digest}")
    if expiry := _expiry(statement, rule, now):
        return BundleResult(None, "expired", f"{by} {expiry}")
    return BundleResult(signer)


def _expiry(statement: Statement, rule: Rule, clock: datetime) -> str:
    """Why the signature is too old; empty if it is not. A clock that is behind the signature's own
    date is wrong, and does not prolong it."""
    now = max(clock, statement.signed_at) if statement.signed_at else clock
    if statement.expires_at is not None and now >= statement.expires_at:
        return f"expired on {statement.expires_at:%Y-%m-%d %H:%M %Z}"
    if rule.max_age is None:
        return ""
    if statement.signed_at is None:
        return "does not say when it was made, and the policy limits its age"
    if now - statement.signed_at > rule.max_age:
        return f"is older than {rule.max_age.days} days: {statement.signed_at:%Y-%m-%d}"
    return ""


def _problem(
    source: str, digest: str, rule: Rule, results: Sequence[BundleResult], signed: int
) -> Diagnostic:
    what = f"`{source}@{digest}`"
    severity = "error" if rule.action == "reject" else "warning"
    if not results:
        hint = "sign it with `torvyn sign`, or change the policy: trust.toml"
        return Diagnostic(
            "artifact.signature-missing", f"{what} is not signed", None, hint, severity
        )
    flaws = {result.flaw for result in results}
    code = next((_CODES[flaw] for flaw in _CODES if flaw in flaws), _CODES["untrusted"])
    reasons = "; ".join(dict.fromkeys(result.reason for result in results if result.reason))
    verdict = f"{what} is not signed by a trusted key"
    if rule.threshold > 1:
        verdict = f"{what} is signed by {signed} trusted keys, and {rule.threshold} must sign it"
    hint = "`torvyn verify --help` explains which keys are trusted" if rule.keys else _NO_KEYS
    return Diagnostic(code, ": ".join(filter(None, (verdict, reasons))), None, hint, severity)


_NO_KEYS: Final = "no key is trusted for this source: name keys with `--key`, or in trust.toml"


def _key(hint: str) -> str:
    """The id of the key that a bundle names, shortened; anyone can write anything there."""
    try:
        key_id = decode_base64(hint, "the hint").hex()
    except ArtifactError:
        key_id = ""
    return f"key {key_id[:12]}" if len(key_id) == 64 else "an unnamed key"
