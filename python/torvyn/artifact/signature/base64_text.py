"""Base64, accepted only in the one form in which it is written: a signed text has no second
spelling."""

from __future__ import annotations

import base64

from torvyn.artifact.failures import invalid


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
