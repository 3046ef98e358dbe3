"""Copies an artifact, and what refers to it, from one layout to another: a stick, for example."""

from __future__ import annotations

from pathlib import Path

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import IMAGE_MANIFEST, Descriptor


def copy_artifact(source: Layout, artifact: Descriptor, folder: Path, *tags: str) -> Layout:
    """Copies the artifact with its signatures; every blob is checked."""
    target = Layout.create(folder)
    for referrer in source.referrers(artifact.digest):
        copy_one(source, referrer, target)
    copy_one(source, artifact, target, *tags)
    return target


def copy_one(source: Layout, artifact: Descriptor, target: Layout, *tags: str) -> None:
    """Copies only the artifact itself."""
    for blob in source.manifest(artifact).blobs:
        if not target.has(blob):
            source.verify(blob)
            target.add_file(blob.media_type, source.path(blob.digest))
    target.add(IMAGE_MANIFEST, source.read(artifact))
    target.list_manifest(artifact, *tags)
