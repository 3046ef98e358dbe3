"""Verification: who may vouch for an artifact. Every attack is rejected under `reject`, a warning
under `warn`, and silent under `allow`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from torvyn._artifact import signature as bundle
from torvyn._artifact.keys import SigningKey
from torvyn._artifact.signature import PAYLOAD_TYPE, PREDICATE_TYPE, Envelope, Statement
from torvyn._artifact.trust import MAX_BUNDLES, Rule, Verification, verify
from torvyn.errors import ArtifactError

SOURCE = "oci://registry.example.com/plant/gateway"
DIGEST = "sha256:" + "a" * 64
OTHER_DIGEST = "sha256:" + "b" * 64
NOW = datetime(2026, 5, 1, tzinfo=UTC)
KEY, BACKUP = SigningKey.generate(name="plant.key"), SigningKey.generate("ecdsa-p256")
STRANGER = SigningKey.generate()


def check(
    *bundles: bytes,
    action: str = "reject",
    threshold: int = 1,
    max_age: timedelta | None = None,
    now: datetime = NOW,
) -> Verification:
    rule = Rule(SOURCE, action, (KEY.public, BACKUP.public), threshold, max_age)
    return verify(SOURCE, DIGEST, bundles, rule, now)


def enclosed(payload: bytes, payload_type: str = PAYLOAD_TYPE, *keys: SigningKey) -> bytes:
    """A bundle around any payload, signed by a trusted key."""
    record = json.loads(bundle.sign(DIGEST, KEY))
    envelope = Envelope.sign(payload_type, payload, keys or [KEY])
    return json.dumps(record | {"dsseEnvelope": envelope.to_record()}).encode()


def predicate_type(kind: str) -> bytes:
    statement = json.loads(Statement(DIGEST).encode())
    return enclosed(json.dumps(statement | {"predicateType": kind}).encode())


def two_subjects() -> bytes:
    statement = json.loads(Statement(DIGEST).encode())
    return enclosed(json.dumps(statement | {"subject": statement["subject"] * 2}).encode())


def forged_hint() -> bytes:
    """By a stranger who names the trusted key."""
    record = json.loads(bundle.sign(DIGEST, STRANGER))
    record["verificationMaterial"]["publicKey"]["hint"] = KEY.public.hint
    return json.dumps(record).encode()


def respelled() -> bytes:
    record = json.loads(bundle.sign(DIGEST, KEY))
    record["dsseEnvelope"]["signatures"][0]["sig"] += "\n"
    return json.dumps(record).encode()


def expired() -> bytes:
    return bundle.sign(DIGEST, KEY, signed_at=NOW - timedelta(9), expires_at=NOW - timedelta(1))


def huge() -> bytes:
    return bundle.sign(DIGEST, KEY) + b" " * bundle.LIMIT_BYTES


ATTACKS: dict[str, tuple[Callable[[], list[bytes]], str]] = {
    "unsigned": (list, "missing"),
    "wrong key": (lambda: [bundle.sign(DIGEST, STRANGER)], "untrusted"),
    "wrong digest": (lambda: [bundle.sign(OTHER_DIGEST, KEY)], "mismatch"),
    "expired": (lambda: [expired()], "expired"),
    "forged hint": (lambda: [forged_hint()], "untrusted"),
    "attestation instead of a signature": (
        lambda: [predicate_type("https://slsa.dev/provenance/v1")],
        "mismatch",
    ),
    "two subjects": (lambda: [two_subjects()], "mismatch"),
    "payload of another type": (
        lambda: [enclosed(Statement(DIGEST).encode(), "text/plain")],
        "mismatch",
    ),
    "signed text that is no statement": (lambda: [enclosed(b"hello")], "mismatch"),
    "two signatures in one bundle": (
        lambda: [enclosed(Statement(DIGEST).encode(), PAYLOAD_TYPE, STRANGER, KEY)],
        "untrusted",
    ),
    "base64 in another form": (lambda: [respelled()], "untrusted"),
    "huge bundle": (lambda: [huge()], "untrusted"),
    "not a bundle": (lambda: [b"{}"], "untrusted"),
    "more bundles than are read": (
        lambda: [b"{}"] * MAX_BUNDLES + [bundle.sign(DIGEST, KEY)],
        "untrusted",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_is_accepted_under_reject(attack: str) -> None:
    bundles, flaw = ATTACKS[attack]

    with pytest.raises(ArtifactError) as caught:
        check(*bundles()).enforce()

    assert caught.value.code == f"artifact.signature-{flaw}"
    assert DIGEST in caught.value.message


@pytest.mark.parametrize("attack", ATTACKS)
def test_warn_warns_and_allow_is_silent_but_neither_says_verified(attack: str) -> None:
    bundles, _ = ATTACKS[attack]

    warned = check(*bundles(), action="warn").enforce()
    allowed = check(*bundles(), action="allow").enforce()

    assert [warning.severity for warning in warned.warnings] == ["warning"]
    assert allowed.warnings == ()
    assert not warned.is_verified
    assert not allowed.is_verified


@pytest.mark.parametrize("key", [KEY, BACKUP], ids=lambda key: key.public.algorithm)
def test_a_signature_of_a_trusted_key_verifies(key: SigningKey) -> None:
    found = check(bundle.sign(DIGEST, key)).enforce()

    assert found.is_verified
    assert found.signers == {key.public}


def test_a_good_signature_counts_beside_bad_ones() -> None:
    assert check(b"{}", bundle.sign(DIGEST, STRANGER), bundle.sign(DIGEST, KEY)).is_verified


def test_a_threshold_needs_that_many_keys() -> None:
    mine, again, backup = (bundle.sign(DIGEST, key) for key in (KEY, KEY, BACKUP))

    assert not check(mine, again, threshold=2).is_verified
    assert check(mine, backup, threshold=2).is_verified


def test_the_message_says_how_many_keys_are_missing() -> None:
    with pytest.raises(ArtifactError, match="signed by 1 trusted keys, and 2 must sign it"):
        check(bundle.sign(DIGEST, KEY), threshold=2).enforce()


def test_a_signature_counts_until_it_expires() -> None:
    signature = bundle.sign(DIGEST, KEY, signed_at=NOW, expires_at=NOW + timedelta(7))

    assert check(signature, now=NOW + timedelta(7, seconds=-1)).is_verified
    assert not check(signature, now=NOW + timedelta(7)).is_verified


def test_the_policy_limits_the_age_of_signatures() -> None:
    fresh = bundle.sign(DIGEST, KEY, signed_at=NOW - timedelta(30))
    undated = bundle.sign(DIGEST, KEY)

    assert check(fresh, max_age=timedelta(30)).is_verified
    assert not check(fresh, max_age=timedelta(29)).is_verified
    assert not check(undated, max_age=timedelta(29)).is_verified


def test_a_clock_in_the_past_does_not_revive_a_signature() -> None:
    made = bundle.sign(DIGEST, KEY, signed_at=NOW, expires_at=NOW - timedelta(1))

    assert not check(made, now=datetime(1970, 1, 1, tzinfo=UTC)).is_verified


def test_without_trusted_keys_nothing_verifies() -> None:
    found = verify(SOURCE, DIGEST, [bundle.sign(DIGEST, KEY)], Rule(), NOW)

    assert found.problem is not None
    assert "no key is trusted" in (found.problem.hint or "")


def test_the_statement_is_the_one_that_cosign_writes() -> None:
    envelope, hint = bundle.parse(bundle.sign(DIGEST, KEY))

    assert hint == KEY.public.hint
    assert json.loads(envelope.payload) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": "a" * 64}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {},
    }
