"""A repository of a registry: the channel under a tag, its artifacts beside it by their digests."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from torvyn._io.background_loop import run_apart
from torvyn.artifact.failures import invalid
from torvyn.artifact.layout import Layout
from torvyn.artifact.model import TITLE, Descriptor, Digest, ImageManifest
from torvyn.artifact.reference import Reference
from torvyn.artifact.registry.client import Registry
from torvyn.artifact.registry.download import download, ignore_progress
from torvyn.artifact.registry.fetch import PARALLEL, all_of
from torvyn.artifact.registry.http.connection import Connection, Limits
from torvyn.artifact.registry.publish import PublishOptions, publish
from torvyn.edge.channel.document import PAYLOAD_TYPE
from torvyn.edge.channel.publication import MAX_BYTES
from torvyn.edge.failures import unreachable
from torvyn.edge.update.source import FetchLimits, Progress
from torvyn.errors import MissingError

ARTIFACT_TYPE: Final = PAYLOAD_TYPE
Result = TypeVar("Result")


class RegistrySource:
    def __init__(self, source: str, limits: FetchLimits, *, is_insecure: bool = False) -> None:
        """`is_insecure` allows HTTP for a host that is not this machine."""
        self._is_insecure: Final = is_insecure
        self._reference: Final = Reference.parse(source)
        self._limits: Final = Limits(
            silence_s=limits.silence_s, least_bytes_per_s=round(limits.min_bytes_per_s)
        )
        self._total_s: Final = limits.total_s

    def publication(self) -> bytes:
        return self._run(self._publication)

    def manifest(self, digest: Digest, limit_bytes: int) -> bytes:
        async def find(registry: Registry) -> bytes:
            found = await registry.find_manifest(digest, limit_bytes)
            if found is None:
                raise unreachable(str(self._reference), f"it has no artifact {digest}")
            return found[1]

        return self._run(find)

    def fetch(self, blobs: Sequence[Descriptor], layout: Layout, progress: Progress) -> None:
        async def fetch_all(registry: Registry) -> None:
            free = asyncio.Semaphore(PARALLEL)

            async def one(blob: Descriptor) -> None:
                async with free:
                    await download(registry, blob, layout, ignore_progress)
                progress(blob.size)

            await all_of(one(blob) for blob in blobs)

        self._run(fetch_all)

    async def _publication(self, registry: Registry) -> bytes:
        _, data = await registry.manifest(self._reference.target)
        manifest = ImageManifest.parse(data)
        if manifest.artifact_type != ARTIFACT_TYPE or len(manifest.layers) != 1:
            raise invalid(f"`{self._reference}` is not a channel")
        with tempfile.TemporaryDirectory() as folder:
            layout, layer = Layout.create(Path(folder)), manifest.layers[0]
            if layer.size > MAX_BYTES:
                raise invalid(f"the channel has {layer.size} bytes; the limit is {MAX_BYTES}")
            await download(registry, layer, layout)
            return layout.read(layer)

    def _run(self, work: Callable[[Registry], Awaitable[Result]]) -> Result:
        async def connected() -> Result:
            async with Connection(
                self._reference.host, limits=self._limits, is_insecure=self._is_insecure
            ) as connection:
                async with asyncio.timeout(self._total_s):
                    return await work(Registry(connection, self._reference.repository))

        try:
            return run_apart(connected())
        except TimeoutError:
            reason = f"it took longer than {self._total_s:.0f} s"
            raise unreachable(str(self._reference), reason) from None
        except MissingError as error:
            raise unreachable(str(self._reference), error.message) from error


def push_channel(data: bytes, target: Reference, *, is_insecure: bool = False) -> None:
    """Publishes a channel as an artifact with one layer. Its tag moves to the new one."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout.create(Path(folder))
        layer = layout.add(PAYLOAD_TYPE, data, {TITLE: "channel.json"})
        descriptor = layout.add_manifest(ImageManifest(ARTIFACT_TYPE, (layer,)))
        options = PublishOptions(may_replace=True, is_insecure=is_insecure)
        run_apart(publish(layout, descriptor, target, options))
