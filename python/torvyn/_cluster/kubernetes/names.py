"""Names that Kubernetes accepts: lower-case letters, digits and dashes."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_LENGTH: Final = 52
"""A StatefulSet adds 11 characters to its name in a label of 63."""
FLOW_LENGTH: Final = 40
"""Of a name to which an ending is added."""
_RESERVED: Final = ("nats", "server")
_HASH_LENGTH: Final = 6


def group_name(name: str) -> str:
    """The name of a group, different from those of the broker and of the server."""
    return f"{name}-group" if name in _RESERVED else object_name(name)


def object_name(*parts: str, limit: int = MAX_LENGTH) -> str:
    """One name of all parts. Names that had to be changed end in a hash, so that two different ones
    stay different."""
    plain = "-".join(parts)
    name = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"flow-{name}".strip("-")
    if name == plain and len(name) <= limit:
        return name
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_HASH_LENGTH]
    return f"{name[: limit - _HASH_LENGTH - 1].rstrip('-')}-{digest}"
