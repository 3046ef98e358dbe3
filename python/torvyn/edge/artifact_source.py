"""Adds an artifact to a deployment: finds it, verifies it, unpacks it."""

from __future__ import annotations

from functools import partial
from typing import Final

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import PROJECT, TITLE, Descriptor
from torvyn.artifact.registry.fetch import FetchOptions, fetch
from torvyn.artifact.signature.policy import TrustPolicy
from torvyn.artifact.unpack import unpack
from torvyn.edge.failures import not_a_project
from torvyn.edge.generations import Deployment, GenerationRecord
from torvyn.errors import Diagnostic

_VERSION: Final = "org.opencontainers.image.version"


def add_artifact(
    deployment: Deployment, reference: str
) -> tuple[GenerationRecord, tuple[Diagnostic, ...]]:
    """Adds the artifact that a person named: in a layout, in a registry, or in the cache if the
    registry is away. What this machine's policy rejects is not added; what it warns of is
    returned."""
    fetched = fetch(reference, FetchOptions(TrustPolicy.load()))
    record = add_from_layout(deployment, fetched.layout, fetched.descriptor, reference)
    return record, fetched.warnings


def add_from_layout(
    deployment: Deployment,
    layout: Layout,
    descriptor: Descriptor,
    source: str,
    version: int | None = None,
) -> GenerationRecord:
    """Adds an artifact whose blobs are in a layout. All of them are verified first."""
    manifest = layout.manifest(descriptor)
    if manifest.artifact_type != PROJECT:
        raise not_a_project(descriptor.digest, manifest.artifact_type or "")
    title = " ".join(
        text for key in (TITLE, _VERSION) if (text := manifest.annotations.get(key, ""))
    )
    fill = partial(unpack, layout, descriptor)
    return deployment.add(fill, descriptor.digest, source, version=version, title=title)
