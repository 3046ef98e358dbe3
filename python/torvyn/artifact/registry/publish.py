"""Publishes an artifact of a layout to a registry, with what refers to it, such as signatures.

The tag moves last: whoever pulls it finds the artifact complete and signed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import IMAGE_MANIFEST, Descriptor, Digest, ImageManifest
from torvyn.artifact.reference import Reference
from torvyn.artifact.registry.client import Registry
from torvyn.artifact.registry.download import Progress, ignore_progress
from torvyn.artifact.registry.fetch import PARALLEL, all_of
from torvyn.artifact.registry.http.connection import Connection, Limits
from torvyn.artifact.registry.referrers import push_referrer
from torvyn.artifact.registry.upload import CHUNK_BYTES, upload
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
