"""TLS: the files of a certificate, with an error that says what is wrong with them."""

from __future__ import annotations

import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from torvyn.errors import MissingError, UsageError, os_reason
from torvyn.transport.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class Certificate:
    """The paths of a certificate, with its issuers, and of its private key."""

    chain: str
    key: str

    def read(self) -> tuple[bytes, bytes]:
        return Path(self.chain).read_bytes(), Path(self.key).read_bytes()


def certificate(settings: ServerSettings) -> Certificate | None:
    """None: the server uses no TLS."""
    cert, key = settings.tls_cert, settings.tls_key
    if not cert and not key:
        return None
    if not cert or not key:
        missing, present = ("tls_key", "tls_cert") if cert else ("tls_cert", "tls_key")
        raise UsageError(
            "transport.tls-unusable",
            f"`{present}` is set but `{missing}` is not",
            hint="set both: the certificate, and its private key",
        )
    for path, what in ((cert, "certificate"), (key, "private key")):
        _check_readable(path, what)
    _check_pair(cert, key)
    return Certificate(cert, key)


def warnings(settings: ServerSettings) -> list[str]:
    """Warnings about the files."""
    key = settings.tls_key
    if key and os.stat(key).st_mode & stat.S_IROTH:
        return [
            f"every user of this machine can read the private key `{key}`: run `chmod 600 {key}`"
        ]
    return []


def _check_readable(path: str, what: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        reason = os_reason(error)
        message = f"cannot read the {what} `{path}`: {reason}"
        raise MissingError("transport.tls-unusable", message) from error


def _check_pair(cert: str, key: str) -> None:
    """Loads the pair with OpenSSL: a server below would only say that it failed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason == "KEY_VALUES_MISMATCH":
            _unusable(f"the private key `{key}` does not belong to the certificate `{cert}`", error)
        _unusable(
            f"`{cert}` and `{key}` are not a certificate and a private key in PEM format", error
        )
    except _EncryptedError as error:
        _unusable(f"the private key `{key}` is encrypted; decrypt it first", error)


class _EncryptedError(Exception):
    pass


def _no_password() -> str:
    """Without it OpenSSL would ask at the terminal."""
    raise _EncryptedError


def _unusable(message: str, cause: Exception) -> NoReturn:
    hint = "put the certificate first in its file, then its issuers; both files in PEM format"
    raise UsageError("transport.tls-unusable", message, hint=hint) from cause
