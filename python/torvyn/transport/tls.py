"""TLS: the files of a certificate -> what granian is told; what is wrong with them, in words."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path
from typing import Any, NoReturn

from torvyn.errors import MissingError, UsageError
from torvyn.transport.settings import ServerSettings


def options(settings: ServerSettings) -> dict[str, Any]:
    """For granian's server; nothing when there is no certificate. HTTP/2 is agreed upon by ALPN."""
    cert, key = settings.tls_cert, settings.tls_key
    if not cert and not key:
        return {}
    if not cert or not key:
        missing, given = ("tls_key", "tls_cert") if cert else ("tls_cert", "tls_key")
        raise UsageError(
            "transport.tls-unusable",
            f"`{given}` is set and `{missing}` is not",
            hint="a server needs both: its certificate, and the private key of that",
        )
    for path, what in ((cert, "certificate"), (key, "private key")):
        _check_readable(path, what)
    _check_pair(cert, key)
    return {"ssl_cert": Path(cert), "ssl_key": Path(key), "ssl_protocol_min": "tls1.2"}


def warnings(settings: ServerSettings) -> list[str]:
    """What is not wrong, and not good either."""
    key = settings.tls_key
    if key and os.stat(key).st_mode & stat.S_IROTH:
        return [f"everybody on this machine can read the private key `{key}`: chmod 600 {key}"]
    return []


def _check_readable(path: str, what: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        message = f"the {what} `{path}` cannot be read: {reason}"
        raise MissingError("transport.tls-unusable", message) from error


def _check_pair(cert: str, key: str) -> None:
    """As OpenSSL sees it: granian itself would fail on a thread of its own, and say little."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason == "KEY_VALUES_MISMATCH":
            _unusable(f"the private key `{key}` is not that of the certificate `{cert}`", error)
        _unusable(f"`{cert}` and `{key}` are no certificate and private key in PEM", error)
    except _EncryptedError as error:
        _unusable(f"the private key `{key}` is encrypted, and nobody is asked for its word", error)


class _EncryptedError(Exception):
    pass


def _no_password() -> str:
    """OpenSSL would ask at the terminal otherwise."""
    raise _EncryptedError


def _unusable(message: str, cause: Exception) -> NoReturn:
    hint = "the certificate comes first in its file, then those that vouch for it; both as PEM"
    raise UsageError("transport.tls-unusable", message, hint=hint) from cause
