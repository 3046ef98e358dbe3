"""Keys: what one signs, only it verifies; private keys stay private."""

from __future__ import annotations

from pathlib import Path

import pytest

from torvyn._artifact.keys import ALGORITHMS, PublicKey, SigningKey
from torvyn.errors import ArtifactError, MissingError


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_that_was_written_signs_and_its_public_part_verifies(
    tmp_path: Path, algorithm: str
) -> None:
    public = SigningKey.generate(algorithm).write(tmp_path / "plant.key")
    signature = SigningKey.read(tmp_path / "plant.key").sign(b"text")

    key = PublicKey.read(public)
    assert key.algorithm == algorithm
    assert key.has_signed(b"text", signature)
    assert not key.has_signed(b"texT", signature)
    assert not key.has_signed(b"text", signature[:-1])


def test_only_the_owner_can_read_a_new_private_key(tmp_path: Path) -> None:
    SigningKey.generate().write(tmp_path / "plant.key")

    assert (tmp_path / "plant.key").stat().st_mode & 0o777 == 0o600


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    SigningKey.generate().write(tmp_path / "plant.key")
    (tmp_path / "plant.key").chmod(0o640)

    with pytest.raises(ArtifactError, match="other users can read"):
        SigningKey.read(tmp_path / "plant.key")


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    SigningKey.generate().write(tmp_path / "plant.key")
    before = (tmp_path / "plant.key").read_bytes()

    with pytest.raises(ArtifactError, match="exists"):
        SigningKey.generate().write(tmp_path / "plant.key")

    assert (tmp_path / "plant.key").read_bytes() == before


def test_a_passphrase_protects_the_private_key(tmp_path: Path) -> None:
    key = SigningKey.generate()
    key.write(tmp_path / "plant.key", b"secret")

    assert SigningKey.read(tmp_path / "plant.key", b"secret").public == key.public
    for wrong in (None, b"other"):
        with pytest.raises(ArtifactError) as caught:
            SigningKey.read(tmp_path / "plant.key", wrong)
        assert caught.value.code == "artifact.key-invalid"


def test_keys_of_other_kinds_are_refused() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519

    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    others = (
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
        x25519.X25519PrivateKey.generate(),
    )
    for key in others:
        with pytest.raises(ArtifactError, match="is not one of ed25519, ecdsa-p256"):
            PublicKey.parse(key.public_key().public_bytes(*form), "other.pub")


def test_a_private_key_is_not_accepted_as_a_public_one(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="not a public key"):
        PublicKey.parse(SigningKey.generate().pem(), "plant.key")


def test_a_missing_key_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"none\.pub"):
        PublicKey.read(tmp_path / "none.pub")


def test_the_text_of_a_key_does_not_show_its_secret() -> None:
    key = SigningKey.generate()

    assert "PrivateKey" not in repr(key)


def test_the_wrong_half_of_a_key_is_recognised(tmp_path: Path) -> None:
    public = SigningKey.generate().write(tmp_path / "plant.key")

    with pytest.raises(ArtifactError) as signing:
        SigningKey.read(public)
    with pytest.raises(ArtifactError) as verifying:
        PublicKey.read(tmp_path / "plant.key")

    assert signing.value.hint == "this is the public key: name the file without `.pub`"
    assert verifying.value.hint == "this is the private key: name plant.key.pub"
