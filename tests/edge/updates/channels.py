"""Channels for tests: keys, documents and publications."""

from __future__ import annotations

from functools import cache
from typing import Any

from torvyn._artifact.keys import SigningKey
from torvyn._artifact.oci import Digest
from torvyn._deploy.channel import ArtifactEntry, ChannelDocument
from torvyn._deploy.publication import KeySet, Publication, publish
from torvyn._deploy.trust import ChannelTrust

NOW = 2_000_000_000.0
"""In May 2033."""
ARTIFACT = ArtifactEntry("gateway", Digest("sha256:" + "a" * 64), 1000)


@cache
def key(name: str) -> SigningKey:
    """The same key for the same name."""
    return SigningKey.generate(name=name)


def trust(*names: str, threshold: int = 1, **fields: Any) -> ChannelTrust:
    keys = KeySet(tuple(key(name).public for name in names or ("a",)), threshold)
    return ChannelTrust("stable", keys, **fields)


def document(version: int = 1, **fields: Any) -> ChannelDocument:
    values = {"channel": "stable", "issued_s": int(NOW), "artifacts": (ARTIFACT,), **fields}
    return ChannelDocument(version=version, **values)


def published(version: int = 1, *names: str, **fields: Any) -> bytes:
    """A publication that the named keys have signed."""
    return publication(version, *names, **fields).serialize()


def publication(version: int = 1, *names: str, **fields: Any) -> Publication:
    return publish(document(version, **fields), [key(name) for name in names or ("a",)])
