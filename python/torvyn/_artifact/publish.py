"""Publishes an artifact of a layout to a registry, and signs one where it is.

The tag moves last: whoever pulls it finds the artifact complete and signed. In a registry, a tag is
signed as the registry resolves it at that moment. Who packs an artifact should sign it in the
layout, before it is published.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from torvyn._artifact import signature
from torvyn._artifact.fetch import PARALLEL, all_of, attach_bundle, source_of
from torvyn._artifact.keys import SigningKey
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import IMAGE_MANIFEST, Descriptor, Digest, ImageManifest
from torvyn._artifact.reference import LayoutReference, Reference, parse_reference
from torvyn._artifact.registry import Registry, push_referrer
from torvyn._artifact.registry_http import Connection, Limits
from torvyn._artifact.transfer import CHUNK_BYTES, Progress, ignore_progress, upload
from torvyn._io.background_loop import run_apart
from torvyn.errors import MissingError


@dataclass(frozen=True)
class PublishOptions:
    may_replace: bool = False
    """Whether a tag may move to another artifact."""
    mount_from: str | None = None
    """Another repository of the registry, which may have the blobs."""
    is_insecure: bool = False
    limits: Limits = field(default_factory=Limits)
    chunk_bytes: int = CHUNK_BYTES
    progress: Progress = ignore_progress
    starts: Progress = ignore_progress


@dataclass(frozen=True, slots=True)
class Published:
    digest: Digest
    blobs: int
    sent_blobs: int
    """The others were there."""
    sent_bytes: int
    referrers: int


async def publish(
    layout: Layout, descriptor: Descriptor, target: Reference, options: PublishOptions
) -> Published:
    """Stores the artifact under the tag of the target, or only under its digest."""
    async with Connection(
        target.host, is_insecure=options.is_insecure, limits=options.limits
    ) as connection:
        registry = Registry(connection, target.repository)
        return await _Publication(layout, descriptor, registry, options).run(target.tag)


async def publish_referrer(
    layout: Layout, referrer: Descriptor, registry: Registry, options: PublishOptions
) -> None:
    """Stores one artifact that refers to another, such as a signature."""
    publication = _Publication(layout, referrer, registry, options)
    await publication.send_blobs()
    await push_referrer(registry, publication.manifest, publication.data)


class _Publication:
    def __init__(
        self, layout: Layout, descriptor: Descriptor, registry: Registry, options: PublishOptions
    ) -> None:
        self._layout = layout
        self._descriptor = descriptor
        self._registry = registry
        self._options = options
        self.data: Final = layout.read(descriptor)
        self.manifest: Final = ImageManifest.parse(self.data)
        self._sent: list[Descriptor] = []

    async def run(self, tag: str | None) -> Published:
        digest = self._descriptor.digest
        if tag is not None:
            await self._check_tag(tag)
        self._options.starts(sum(blob.size for blob in self.manifest.blobs))
        await self.send_blobs()
        await self._registry.push_manifest(self.data, digest, IMAGE_MANIFEST)
        referrers = self._layout.referrers(digest)
        for referrer in referrers:
            await publish_referrer(self._layout, referrer, self._registry, self._options)
        if tag is not None:
            await self._registry.push_manifest(self.data, tag, IMAGE_MANIFEST)
        sent_bytes = sum(blob.size for blob in self._sent)
        count = len(self.manifest.blobs)
        return Published(digest, count, len(self._sent), sent_bytes, len(referrers))

    async def send_blobs(self) -> None:
        free = asyncio.Semaphore(PARALLEL)

        async def one(blob: Descriptor) -> None:
            async with free:
                if await upload(
                    self._registry,
                    blob,
                    self._layout,
                    mount_from=self._options.mount_from,
                    chunk_bytes=self._options.chunk_bytes,
                    progress=self._options.progress,
                ):
                    self._sent.append(blob)

        await all_of(one(blob) for blob in self.manifest.blobs)

    async def _check_tag(self, tag: str) -> None:
        found = await self._registry.head(tag)
        if found in (None, self._descriptor.digest) or self._options.may_replace:
            return
        message = f"{self._registry.name} has another artifact with the tag `{tag}`: {found}"
        hint = "choose another tag, or move this one with `--replace`"
        raise MissingError("artifact.tag-exists", message, hint=hint)


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
    return signature.sign(digest, key, **times)
