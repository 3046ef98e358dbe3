"""The document of a channel, and which one a deployment accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from channels import ARTIFACT, NOW, document, key, publication, published, trust
from hypothesis import given
from hypothesis import strategies as st

from torvyn._deploy import trust as trust_rules
from torvyn._deploy.channel import ChannelDocument, Requirement, Rollout
from torvyn._deploy.publication import Publication, countersign, publish, rotate
from torvyn._deploy.trust import MAX_RISE, ChannelTrust, accept
from torvyn.errors import TorvynError


def refused(data: bytes, before: ChannelTrust, clock_s: float = NOW) -> str:
    """The code of the error."""
    with pytest.raises(TorvynError) as caught:
        accept(data, before, clock_s)
    return caught.value.code


def test_a_signed_document_is_accepted_and_remembered() -> None:
    found, after = accept(published(3, min_version=2), trust(), NOW)

    assert found.artifact() == ARTIFACT
    assert (after.version, after.min_version, after.issued_s) == (3, 2, int(NOW))


def test_the_same_document_is_accepted_again() -> None:
    data = published(3)
    _, after = accept(data, trust(), NOW)

    assert accept(data, after, NOW)[1] == after


def test_what_is_trusted_survives_being_stored() -> None:
    _, after = accept(published(3, expires_s=int(NOW) + 9), trust("a", "b"), NOW)

    assert ChannelTrust.from_dict(json.loads(json.dumps(after.to_dict()))) == after


@given(
    st.integers(1, 2**63 - 1),
    st.integers(0, 2**33),
    st.one_of(st.none(), st.integers(1, 10**9)),
    st.integers(0, 100),
    st.text(max_size=20),
)
def test_a_document_that_is_written_and_read_is_the_same(
    version: int, issued_s: int, lasts_s: int | None, percent: int, salt: str
) -> None:
    expires_s = None if lasts_s is None else issued_s + lasts_s
    fields = {"issued_s": issued_s, "expires_s": expires_s, "rollout": Rollout(percent, salt)}
    made = document(version, **fields)

    assert ChannelDocument.parse(made.serialize()) == made


# Attacks


def test_a_document_without_a_trusted_signature_is_refused() -> None:
    assert refused(published(1, "mallory"), trust("a")) == "edge.channel-untrusted"


def test_a_changed_document_is_refused() -> None:
    good = publication(1)
    forged = replace(good.document, payload=document(2).serialize())

    data = replace(good, document=forged).serialize()

    assert refused(data, trust()) == "edge.channel-untrusted"


def test_two_signatures_of_one_key_are_not_a_threshold_of_two() -> None:
    twice = countersign(publication(1, "a"), key("a"))
    repeated = replace(twice.document, signatures=twice.document.signatures * 2)
    data = replace(twice, document=repeated).serialize()

    assert refused(data, trust("a", "b", threshold=2)) == "edge.channel-untrusted"
    both = countersign(publication(1, "a"), key("b")).serialize()
    assert accept(both, trust("a", "b", threshold=2), NOW)[1].version == 1


def test_an_older_document_is_refused() -> None:
    _, after = accept(published(7), trust(), NOW)

    assert refused(published(6), after) == "edge.channel-rolled-back"


def test_another_document_of_the_same_version_is_refused() -> None:
    _, after = accept(published(7), trust(), NOW)

    assert refused(published(7, min_version=1), after) == "edge.channel-forked"


def test_a_version_that_uses_up_the_numbers_is_refused() -> None:
    assert refused(published(MAX_RISE + 1), trust()) == "edge.channel-skipped"
    assert accept(published(MAX_RISE), trust(), NOW)[1].version == MAX_RISE


def test_a_document_of_another_channel_is_refused() -> None:
    assert refused(published(1, channel="testing"), trust()) == "edge.channel-other"


@pytest.mark.parametrize("clock_s", [0.0, NOW - 200.0, NOW])
def test_a_clock_in_the_past_does_not_extend_a_document(clock_s: float) -> None:
    _, after = accept(published(1), trust(), clock_s)
    old = published(2, issued_s=int(NOW) - 100, expires_s=int(NOW) - 10)

    assert refused(old, after, clock_s) == "edge.channel-expired"


def test_a_document_that_expired_before_this_release_is_refused_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = published(1, issued_s=int(NOW) - 100, expires_s=int(NOW) - 10)
    accept(old, trust(), 0.0)

    monkeypatch.setattr(trust_rules, "released_s", lambda: int(NOW))

    assert refused(old, trust(), 0.0) == "edge.channel-expired"


def test_an_expired_document_says_for_how_long_and_changes_nothing() -> None:
    _, after = accept(published(1, expires_s=int(NOW) + 10), trust(), NOW)

    assert after.stale_s(NOW) == 0
    assert after.stale_s(NOW + 70) == 60
    assert refused(published(2, expires_s=int(NOW) + 10), after, NOW + 70) == "edge.channel-expired"


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"schema": 2}', b'{"schema": 1, "document": {}}', b"\xff", b"[" * 99999],
)
def test_a_malformed_publication_is_refused(data: bytes) -> None:
    assert refused(data, trust()) == "edge.channel-invalid"


def test_a_publication_that_is_too_large_is_refused() -> None:
    padded = published(1)[:-2] + b" " * (1 << 20) + b"}"

    assert refused(padded, trust()) == "edge.channel-invalid"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"version": True},
        {"version": 2**63},
        {"version": 1.0},
        {"issued": "yesterday"},
        {"expires": "1999-01-01T00:00:00Z"},
        {"min_version": 9},
        {"artifacts": []},
        {"artifacts": [ARTIFACT.to_dict(), ARTIFACT.to_dict()]},
        {"artifacts": [{**ARTIFACT.to_dict(), "digest": "sha256:../../etc"}]},
        {"artifacts": [{**ARTIFACT.to_dict(), "size": 2**60}]},
        {"artifacts": [{**ARTIFACT.to_dict(), "torvyn": "newest"}]},
        {"rollout": {"percent": 101}},
        {"channel": "../x"},
    ],
    ids=str,
)
def test_a_field_with_a_wrong_value_is_refused_even_if_it_is_signed(change: dict) -> None:  # type: ignore[type-arg]
    value = json.loads(document(1).serialize()) | change

    with pytest.raises(TorvynError, match="cannot be read"):
        ChannelDocument.parse(json.dumps(value).encode())


# Keys


def rotated(publication: Publication, old: str, *new: str, threshold: int = 1) -> Publication:
    keys = [key(name) for name in new]
    return rotate(publication, [key(old)], keys, threshold=threshold, issued_s=int(NOW))


def test_keys_change_by_a_statement_of_old_and_new_keys() -> None:
    changed = rotated(publication(1), "a", "b")

    found, after = accept(changed.serialize(), trust("a"), NOW)

    assert (found.version, after.keys.step) == (2, 2)
    assert refused(published(3, "a"), after) == "edge.channel-untrusted"


def test_a_device_that_missed_several_changes_follows_them_all() -> None:
    changed = rotated(rotated(publication(1), "a", "b"), "b", "c", "d", threshold=2)

    _, after = accept(changed.serialize(), trust("a"), NOW)

    assert (after.keys.step, after.keys.threshold, after.version) == (3, 2, 3)


@pytest.mark.parametrize("signers", [("a",), ("b",)], ids=["only-old", "only-new"])
def test_a_change_of_keys_with_one_signature_is_refused(signers: tuple[str, ...]) -> None:
    changed = rotated(publication(1), "a", "b")
    one = [key(name) for name in signers]
    statement = publish(document(1), one).document.sign(
        changed.rotations[0].payload_type, changed.rotations[0].payload, one
    )
    data = replace(changed, rotations=(statement,)).serialize()

    assert refused(data, trust("a")) == "edge.channel-untrusted"


def test_a_missing_change_of_keys_is_refused() -> None:
    changed = rotated(rotated(publication(1), "a", "b"), "b", "c")
    data = replace(changed, rotations=changed.rotations[1:]).serialize()

    assert refused(data, trust("a")) == "edge.channel-invalid"


def test_a_change_of_keys_is_not_a_document() -> None:
    changed = rotated(publication(1), "a", "b")
    data = replace(changed, document=changed.rotations[0]).serialize()

    assert refused(data, trust("a")) == "edge.channel-untrusted"


def test_new_keys_recover_from_a_date_far_in_the_future() -> None:
    """Whoever stole the old keys could otherwise make all later documents look expired."""
    far = publication(1, issued_s=int(NOW) + 10**9)
    _, poisoned = accept(far.serialize(), trust(), NOW)
    assert refused(published(2, expires_s=int(NOW) + 60), poisoned) == "edge.channel-expired"

    saved = rotated(publication(2, expires_s=int(NOW) + 60), "a", "b")

    assert accept(saved.serialize(), poisoned, NOW)[1].version == 3


# Rollouts and requirements


def test_a_larger_rollout_includes_the_devices_of_a_smaller_one() -> None:
    devices = [f"device-{number}" for number in range(2000)]
    included = [{d for d in devices if Rollout(p, "x").includes(d)} for p in (0, 10, 50, 100)]

    assert [small <= large for small, large in pairwise(included)] == [1] * 3
    assert (len(included[0]), len(included[3])) == (0, 2000)
    assert 140 < len(included[1]) < 260


def test_another_salt_chooses_other_devices() -> None:
    devices = [f"device-{number}" for number in range(200)]

    chosen = [[Rollout(50, salt).includes(each) for each in devices] for salt in ("x", "y")]

    assert chosen[0] != chosen[1]


@pytest.mark.parametrize(
    ("requirement", "version", "is_allowed"),
    [
        ("", "0.1.0", True),
        (">=0.3", "0.3.0", True),
        (">=0.3", "0.2.9", False),
        (">=0.3,<2", "2.0", False),
        ("==1.2", "1.2.0", True),
        ("!=1.2", "1.2", False),
        (">1.9", "1.10", True),
        (">=0.3", "0.3.0rc1", True),
    ],
)
def test_a_requirement_allows_versions(requirement: str, version: str, is_allowed: bool) -> None:
    assert Requirement.parse(requirement).allows(version) is is_allowed
