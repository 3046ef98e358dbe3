"""Signs an artifact where it is: in a layout, or in a registry.

In a registry, a tag is signed as the registry resolves it at that moment. Who packs an artifact
should sign it in the layout, before it is published.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from torvyn._io.background_loop import run_apart
from torvyn.artifact.layout import Layout
from torvyn.artifact.model import Digest
from torvyn.artifact.reference import LayoutReference, Reference, parse_reference
from torvyn.artifact.registry.attach import attach_bundle
from torvyn.artifact.registry.client import Registry
from torvyn.artifact.registry.fetch import source_of
from torvyn.artifact.registry.http.connection import Connection, Limits
from torvyn.artifact.registry.publish import PublishOptions, publish_referrer
from torvyn.artifact.signature import bundle
from torvyn.artifact.signature.keys import SigningKey


@dataclass(frozen=True, slots=True)
class SigningOptions:
    signed_at: datetime | None = None
    expires_at: datetime | None = None
    is_insecure: bool = False
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    source: str
    digest: Digest


def sign_artifact(reference: str, key: SigningKey, options: SigningOptions) -> Signed:
    """Adds a signature beside the artifact."""
    parsed = parse_reference(reference)
    if isinstance(parsed, Reference):
        return run_apart(_sign_in_registry(parsed, key, options))
    return _sign_in_layout(parsed, key, options)


def _sign_in_layout(reference: LayoutReference, key: SigningKey, options: SigningOptions) -> Signed:
    layout = Layout(reference.folder)
    artifact = layout.resolve(reference.target)
    attach_bundle(layout, artifact, _bundle(artifact.digest, key, options))
    return Signed(source_of(reference), artifact.digest)


async def _sign_in_registry(
    reference: Reference, key: SigningKey, options: SigningOptions
) -> Signed:
    async with Connection(
        reference.host, is_insecure=options.is_insecure, limits=options.limits
    ) as connection:
        registry = Registry(connection, reference.repository)
        artifact, _ = await registry.manifest(reference.target)
        data = _bundle(artifact.digest, key, options)
        with tempfile.TemporaryDirectory(prefix="torvyn-sign-") as folder:
            layout = Layout.create(Path(folder))
            referrer = attach_bundle(layout, artifact, data)
            await publish_referrer(layout, referrer, registry, PublishOptions())
    return Signed(source_of(reference), artifact.digest)


def _bundle(digest: Digest, key: SigningKey, options: SigningOptions) -> bytes:
    times = {"signed_at": options.signed_at, "expires_at": options.expires_at}
    return bundle.sign(digest, key, **times)
