"""Every `artifact.*` code of keys, signatures and the trust policy."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from torvyn._artifact import signature
from torvyn._artifact.keys import PublicKey, SigningKey
from torvyn._artifact.trust import Rule, TrustPolicy, verify

DIGEST = "sha256:" + "a" * 64


def key_exists(folder: Path) -> None:
    SigningKey.generate().write(folder / "key")
    SigningKey.generate().write(folder / "key")


def key_exposed(folder: Path) -> None:
    SigningKey.generate().write(folder / "key")
    (folder / "key").chmod(0o644)
    SigningKey.read(folder / "key")


def without_package(_folder: Path) -> None:
    with mock.patch.dict(sys.modules, {"cryptography.hazmat.primitives": None}):
        PublicKey.parse(b"", "key.pub")


def rejected(digest: str = DIGEST, *, is_signed: bool = True, is_trusted: bool = True) -> None:
    key, past = SigningKey.generate(), datetime(2020, 1, 1, tzinfo=UTC)
    rule = Rule(keys=(key.public,) if is_trusted else ())
    bundles = [signature.sign(DIGEST, key, expires_at=past)] if is_signed else []
    verify("oci://host/a", digest, bundles, rule).enforce()


CASES = {
    "artifact.key-exists": key_exists,
    "artifact.key-exposed": key_exposed,
    "artifact.key-invalid": lambda _: PublicKey.parse(b"", "key.pub"),
    "artifact.key-missing": lambda folder: PublicKey.read(folder / "key.pub"),
    "artifact.key-unwritable": lambda folder: SigningKey.generate().write(folder / "no" / "key"),
    "artifact.package-missing": without_package,
    "artifact.policy-invalid": lambda folder: TrustPolicy.read(folder / "trust.toml"),
    "artifact.signature-expired": lambda _: rejected(),
    "artifact.signature-mismatch": lambda _: rejected("sha256:" + "b" * 64),
    "artifact.signature-missing": lambda _: rejected(is_signed=False),
    "artifact.signature-untrusted": lambda _: rejected(is_trusted=False),
}
