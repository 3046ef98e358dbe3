"""Envelopes: what is signed is the payload and its type, and nothing has a second spelling."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._artifact.keys import SigningKey
from torvyn._artifact.signature import MAX_SIGNATURES, Envelope, signed_bytes
from torvyn.errors import ArtifactError

TYPE = "application/vnd.example+json"
KEY = SigningKey.generate()
OTHER = SigningKey.generate("ecdsa-p256")


def signed(payload: bytes = b"{}", *keys: SigningKey) -> dict[str, Any]:
    return Envelope.sign(TYPE, payload, keys or [KEY]).to_record()


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"

    assert signed_bytes("http://example.com/HelloWorld", b"hello world") == expected


@given(st.binary(max_size=200), st.text(max_size=20))
def test_an_envelope_is_read_back_as_it_was_written(payload: bytes, kind: str) -> None:
    envelope = Envelope.sign(kind, payload, [KEY])

    again = Envelope.parse(envelope.encode())

    assert again == envelope
    assert again.verified_payload(kind, [KEY.public]) == payload


@given(st.text(max_size=5), st.binary(max_size=5), st.text(max_size=5), st.binary(max_size=5))
def test_two_envelopes_never_sign_the_same_bytes(
    kind: str, payload: bytes, other_kind: str, other: bytes
) -> None:
    is_same = (kind, payload) == (other_kind, other)

    assert (signed_bytes(kind, payload) == signed_bytes(other_kind, other)) == is_same


def test_a_changed_payload_or_type_is_refused() -> None:
    for change in ({"payload": base64.b64encode(b"[]").decode()}, {"payloadType": "other"}):
        envelope = Envelope.of(signed() | change)

        with pytest.raises(ArtifactError, match="0 of the trusted keys"):
            envelope.verified_payload(envelope.payload_type, [KEY.public])


def test_a_payload_of_another_type_is_refused_although_it_is_signed() -> None:
    with pytest.raises(ArtifactError, match="the signed data is of type"):
        Envelope.of(signed()).verified_payload("other", [KEY.public])


def test_a_key_counts_once_however_often_it_signs() -> None:
    envelope = Envelope.sign(TYPE, b"{}", [KEY, KEY])

    with pytest.raises(ArtifactError, match="1 of the trusted keys signed it; 2 must"):
        envelope.verified_payload(TYPE, [KEY.public, KEY.public, OTHER.public], threshold=2)


def test_two_keys_reach_a_threshold_of_two() -> None:
    envelope = Envelope.sign(TYPE, b"{}", [OTHER, KEY])

    assert envelope.verified_payload(TYPE, [KEY.public, OTHER.public], threshold=2) == b"{}"


@pytest.mark.parametrize("threshold", [0, -1])
def test_a_threshold_below_one_still_needs_a_signature(threshold: int) -> None:
    with pytest.raises(ArtifactError):
        Envelope.of(signed()).verified_payload(TYPE, [OTHER.public], threshold)


def test_a_signature_of_one_algorithm_is_not_tried_as_another() -> None:
    forged = signed(b"{}", OTHER) | {"keyid": KEY.public.id, "alg": "ed25519"}

    assert Envelope.of(forged).signers([KEY.public]) == frozenset()
    assert Envelope.of(forged).signers([OTHER.public]) == {OTHER.public}


@pytest.mark.parametrize("change", ["\n", " ", "=", "A"], ids=repr)
def test_base64_in_another_form_is_refused(change: str) -> None:
    record = signed()
    record["signatures"][0]["sig"] += change

    with pytest.raises(ArtifactError, match="base64"):
        Envelope.of(record)


def test_base64_with_stray_bits_is_refused() -> None:
    with pytest.raises(ArtifactError, match="base64"):
        Envelope.of(signed() | {"payload": "e31="})  # decodes like `e30=`


@pytest.mark.parametrize("count", [0, MAX_SIGNATURES + 1])
def test_the_number_of_signatures_is_limited(count: int) -> None:
    record = signed()

    with pytest.raises(ArtifactError, match="1 to 16 signatures"):
        Envelope.of(record | {"signatures": record["signatures"] * count})


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"\xff", b'{"payload": NaN}', b'{"a": 1, "a": 2}', b"[" * 100_000],
    ids=lambda data: ascii(data[:12]),
)
def test_what_is_not_an_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError):
        Envelope.parse(data)


def test_an_oversized_envelope_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ArtifactError, match="more than 100 bytes"):
        Envelope.parse(json.dumps(signed()).encode() + b" " * 100, limit_bytes=100)
