"""Signatures beside an artifact: artifacts of their own, which refer to it."""

from __future__ import annotations

import contextlib

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import IMAGE_MANIFEST, Descriptor, Digest, ImageManifest
from torvyn.artifact.registry.client import Registry
from torvyn.artifact.registry.download import download
from torvyn.artifact.registry.referrers import list_referrers
from torvyn.artifact.signature import bundle
from torvyn.artifact.signature.verification import MAX_BUNDLES
from torvyn.errors import ArtifactError, MissingError, TorvynError


def attach_bundle(layout: Layout, subject: Descriptor, data: bytes) -> Descriptor:
    """Adds a signature of an artifact, which need not be here, to a layout."""
    blob = layout.add(bundle.MEDIA_TYPE, data)
    plain = Descriptor(subject.media_type, subject.digest, subject.size)
    manifest = ImageManifest(bundle.MEDIA_TYPE, (blob,), bundle.ANNOTATIONS, plain)
    return layout.add_manifest(manifest)


def read_bundles(layout: Layout, digest: Digest) -> list[bytes]:
    """The signatures of an artifact that are in the layout."""
    bundles = []
    referrers = layout.referrers(digest, bundle.MEDIA_TYPE, bundle.LIMIT_BYTES)
    for referrer in referrers[:MAX_BUNDLES]:
        # A signature that cannot be read counts as one that is not trusted.
        data = b""
        with contextlib.suppress(TorvynError):
            blob = _bundle_blob(layout.manifest(referrer))
            data = layout.read(blob, bundle.LIMIT_BYTES) if blob else b""
        bundles.append(data)
    return bundles


async def fetch_bundles(registry: Registry, digest: Digest, layout: Layout) -> None:
    """Adds the signatures that a registry lists to the layout. What is no signature of this
    artifact is left out: anyone who may push to the repository can add to the list."""
    listed = await list_referrers(registry, digest, bundle.MEDIA_TYPE)
    once = {referrer.digest: referrer for referrer in listed}
    for referrer in list(once.values())[:MAX_BUNDLES]:
        try:
            await _fetch_bundle(registry, referrer, digest, layout)
        except ArtifactError:
            continue
        except MissingError as error:
            if error.code != "artifact.not-found":
                raise


async def _fetch_bundle(
    registry: Registry, referrer: Descriptor, subject: Digest, layout: Layout
) -> None:
    found = await registry.find_manifest(referrer.digest, bundle.LIMIT_BYTES)
    if found is None or found[0].media_type != IMAGE_MANIFEST:
        return
    descriptor, data = found
    manifest = ImageManifest.parse(data)
    blob = _bundle_blob(manifest)
    if blob is None or manifest.subject is None or manifest.subject.digest != subject:
        return
    for each in (manifest.config, blob):
        await download(registry, each, layout)
    layout.add(IMAGE_MANIFEST, data)
    layout.list_manifest(descriptor)


def _bundle_blob(manifest: ImageManifest) -> Descriptor | None:
    """The only layer, if it is a bundle of an acceptable size."""
    fits = (
        len(manifest.layers) == 1
        and manifest.layers[0].media_type == bundle.MEDIA_TYPE
        and max(manifest.layers[0].size, manifest.config.size) <= bundle.LIMIT_BYTES
    )
    return manifest.layers[0] if fits else None
