"""Referrers: the artifacts about an artifact, such as its signatures.

A registry that has the API lists them itself. For the others, the protocol has the fallback tag
`sha256-<digest>`: an index that whoever pushes a referrer also updates.
"""

from __future__ import annotations

from typing import Final

from torvyn.artifact.model import (
    IMAGE_INDEX,
    IMAGE_MANIFEST,
    MAX_MANIFEST_BYTES,
    Descriptor,
    Digest,
    ImageIndex,
    ImageManifest,
    digest_of,
)
from torvyn.artifact.registry.client import Registry
from torvyn.errors import ArtifactError

MAX_REFERRERS: Final = 1000


def fallback_tag(digest: Digest) -> str:
    return digest.replace(":", "-")


async def list_referrers(
    registry: Registry, digest: Digest, artifact_type: str | None = None
) -> list[Descriptor]:
    """What refers to the artifact. The list is the registry's word: what is in it is checked when
    it is fetched."""
    status, headers, data = await registry.connection.fetch(
        "GET", registry.path("referrers", digest), registry.pull_scope, MAX_MANIFEST_BYTES
    )
    is_index = headers.get("Content-Type", "").partition(";")[0].strip() == IMAGE_INDEX
    if status == 200 and is_index:
        found = ImageIndex.parse(data, f"the referrers in {registry.name}")
    elif status in (200, 400, 404, 405):  # registries that do not know the path answer any of these
        found = await _fallback(registry, digest)
    else:
        raise registry.failed(status, headers, data, f"the referrers of {digest}")
    return [each for each in found.manifests if artifact_type in (None, each.artifact_type)]


async def push_referrer(registry: Registry, manifest: ImageManifest, data: bytes) -> None:
    """Stores a manifest (and its bytes) with a subject, whose blobs are there, so that both kinds
    of registries list it."""
    assert manifest.subject is not None
    digest = digest_of(data)
    is_listed = await registry.push_manifest(data, digest, IMAGE_MANIFEST)
    if not is_listed:
        kind, annotations = manifest.artifact_type, manifest.annotations
        entry = Descriptor(IMAGE_MANIFEST, digest, len(data), annotations, kind)
        await _add_to_fallback(registry, manifest.subject.digest, entry)


async def _fallback(registry: Registry, digest: Digest) -> ImageIndex:
    found = await registry.find_manifest(fallback_tag(digest))
    if found is None:
        return ImageIndex()
    descriptor, data = found
    if descriptor.media_type != IMAGE_INDEX:
        return ImageIndex()
    return ImageIndex.parse(data, f"the fallback tag of {registry.name}")


async def _add_to_fallback(registry: Registry, subject: Digest, entry: Descriptor) -> None:
    index = await _fallback(registry, subject)
    if any(each.digest == entry.digest for each in index.manifests):
        return
    if len(index.manifests) >= MAX_REFERRERS:
        message = f"{subject} in {registry.name} has {MAX_REFERRERS} referrers; no more are added"
        raise ArtifactError("artifact.too-large", message)
    data = ImageIndex((*index.manifests, entry)).serialize()
    await registry.push_manifest(data, fallback_tag(subject), IMAGE_INDEX)
