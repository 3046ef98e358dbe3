"""Keys in PEM files: Ed25519 (the default) and ECDSA over P-256 with SHA-256.

Base64 is accepted only in the one form in which it is written: a signed text has no second
spelling. The package `cryptography` is imported by the first key, not by this module.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torvyn._artifact.oci import invalid
from torvyn.errors import ArtifactError, MissingError, install_hint, os_reason

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


def decode_base64(text: object, what: str) -> bytes:
    """Raises `artifact.invalid` for anything that `encode_base64` would have written otherwise."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except ValueError:
        data = None
    if data is None or encode_base64(data) != text:
        raise invalid(f"{what} is not base64 in its usual form")
    return data


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


ALGORITHMS: Final = ("ed25519", "ecdsa-p256")
LIMIT_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies. Two keys are equal if their ids are."""

    id: str
    """The SHA-256 of the encoded key, in hexadecimal."""
    algorithm: str
    name: str = field(compare=False)
    """How people call it: the name of its file."""
    _key: Ed25519PublicKey | EllipticCurvePublicKey = field(repr=False, compare=False)

    @classmethod
    def parse(cls, pem: bytes, name: str) -> PublicKey:
        serialization = _serialization()
        from cryptography.exceptions import UnsupportedAlgorithm

        try:
            key = serialization.load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            is_private = b"PRIVATE KEY" in pem
            hint = f"this is the private key: name {name}.pub" if is_private else ""
            raise _invalid(name, "it is not a public key in a PEM file", hint) from None
        if pem.count(b"-----BEGIN ") > 1:
            hint = "write each key to a file of its own, and name all of them"
            raise _invalid(name, "the file has more than one key, and only one would count", hint)
        return cls.of(key, name)

    @classmethod
    def read(cls, path: str | Path) -> PublicKey:
        return cls.parse(_read(Path(path)), Path(path).name)

    @classmethod
    def of(cls, key: Any, name: str) -> PublicKey:
        serialization = _serialization()
        algorithm = _algorithm(key, name)
        encoded = key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return cls(hashlib.sha256(encoded).hexdigest(), algorithm, name, key)

    @property
    def hint(self) -> str:
        """The id as Sigstore bundles write it."""
        return encode_base64(bytes.fromhex(self.id))

    @property
    def pem(self) -> bytes:
        serialization = _serialization()
        return self._key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            if isinstance(self._key, ed25519.Ed25519PublicKey):
                self._key.verify(signature, data)
            else:
                self._key.verify(signature, data, ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key. It is read from a file that only its owner can read."""

    public: PublicKey
    _key: Ed25519PrivateKey | EllipticCurvePrivateKey = field(repr=False, compare=False)

    @classmethod
    def generate(cls, algorithm: str = "ed25519", name: str = "key") -> SigningKey:
        _serialization()
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519

        key: Ed25519PrivateKey | EllipticCurvePrivateKey
        if algorithm == "ed25519":
            key = ed25519.Ed25519PrivateKey.generate()
        else:
            key = ec.generate_private_key(ec.SECP256R1())
        return cls(PublicKey.of(key.public_key(), name), key)

    @classmethod
    def parse(cls, pem: bytes, name: str, passphrase: bytes | None = None) -> SigningKey:
        serialization = _serialization()
        from cryptography.exceptions import UnsupportedAlgorithm

        try:
            key = serialization.load_pem_private_key(pem, passphrase)
        except TypeError:
            needs = "needs" if passphrase is None else "has no"
            hint = "name a file that contains it with `--passphrase-file`" if not passphrase else ""
            raise _invalid(name, f"the key {needs} a passphrase", hint) from None
        except (ValueError, UnsupportedAlgorithm):
            wrong = " or the passphrase is wrong" if passphrase is not None else ""
            is_public = b"BEGIN PUBLIC KEY" in pem
            hint = "this is the public key: name the file without `.pub`" if is_public else ""
            problem = f"it is not a private key in a PEM file{wrong}"
            raise _invalid(name, problem, hint) from None
        return cls(PublicKey.of(key.public_key(), name), key)

    @classmethod
    def read(cls, path: str | Path, passphrase: bytes | None = None) -> SigningKey:
        path = Path(path)
        key = cls.parse(_read(path), path.name, passphrase)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ArtifactError(
                "artifact.key-exposed",
                f"other users can read the private key {path}",
                hint=f"chmod 600 {path}; if they may have read it, generate another key",
            )
        return key

    def sign(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        from cryptography.hazmat.primitives.hashes import SHA256

        if isinstance(self._key, ed25519.Ed25519PrivateKey):
            return self._key.sign(data)
        return self._key.sign(data, ec.ECDSA(SHA256()))

    def pem(self, passphrase: bytes | None = None) -> bytes:
        serialization = _serialization()
        encryption: Any = (
            serialization.BestAvailableEncryption(passphrase)
            if passphrase
            else serialization.NoEncryption()
        )
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )

    def write(self, path: Path, passphrase: bytes | None = None) -> Path:
        """Writes the private key, and the public key beside it as `.pub`, whose path it returns.
        Never replaces a file."""
        public = path.with_name(f"{path.name}.pub")
        _create(path, self.pem(passphrase), 0o600)
        _create(public, self.public.pem, 0o644)
        return public


def _create(path: Path, data: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        hint = "choose another name; a key that was replaced can sign nothing again"
        raise ArtifactError("artifact.key-exists", f"{path} exists", hint=hint) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        path.unlink()
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> MissingError:
    message = f"cannot write {path}: {os_reason(error)}"
    return MissingError("artifact.key-unwritable", message)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LIMIT_BYTES)
    except (OSError, ValueError) as error:
        reason = os_reason(error)
        message = f"cannot read the key {path}: {reason}"
        hint = "`torvyn sign --generate-key NAME` makes one, and `NAME.pub` to verify with"
        raise MissingError("artifact.key-missing", message, hint=hint) from None


def _algorithm(key: object, name: str) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if isinstance(key, ed25519.Ed25519PublicKey):
        return "ed25519"
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return "ecdsa-p256"
    raise _invalid(name, f"it is not one of {', '.join(ALGORITHMS)}")


def _invalid(name: str, problem: str, hint: str = "") -> ArtifactError:
    message = f"the key {name} cannot be used: {problem}"
    return ArtifactError("artifact.key-invalid", message, hint=hint or None)


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        message, hint = "signatures need the package `cryptography`", install_hint("oci")
        raise MissingError("artifact.package-missing", message, hint=hint) from None
    return serialization
