"""A channel in a folder, as a release engineer would publish it, and deployments that follow it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from channels import NOW, document, key
from versioned_gateway import pack

from torvyn._deploy.channel import ArtifactEntry
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.generation_state import GenerationRecord
from torvyn._deploy.publication import publish
from torvyn._deploy.settings import DeploymentSettings, Following
from torvyn._deploy.source import FetchLimits, open_source
from torvyn._deploy.update import Updater, total_bytes


class FollowedChannel:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "channel.json"
        self.output = folder.parent / "delivered.txt"

    def entry(self, release: str, **parts: Any) -> ArtifactEntry:
        """Packs a release into the folder."""
        layout, descriptor = pack(self.folder, release, self.output, **parts)
        size = total_bytes(layout.read(descriptor))
        return ArtifactEntry("gateway", descriptor.digest, size)

    def publish(self, version: int, release: str = "1.0.0", **fields: Any) -> ArtifactEntry:
        """Publishes a release as a version of the channel."""
        entry = self.entry(release)
        self.offer(version, artifacts=(entry,), **fields)
        return entry

    def offer(self, version: int, *, signer: str = "a", **fields: Any) -> None:
        made = publish(document(version, **fields), [key(signer)])
        self.file.write_bytes(made.serialize())

    def updater(
        self,
        deployment: Deployment,
        source: str | None = None,
        *,
        check: Callable[[GenerationRecord], str | None] = lambda record: None,
        limits: FetchLimits | None = None,
        clock: Callable[[], float] = lambda: NOW,
        **settings: Any,
    ) -> Updater:
        pems = (key("a").public.pem.decode(),)
        follow = Following(source or str(self.file), "stable", pems)
        return Updater(
            deployment,
            DeploymentSettings(follow=follow, **settings),
            follow,
            check=check,
            torvyn_version="0.1.0",
            source=open_source(follow.source, limits),
            clock=clock,
        )
