"""Adds an artifact to a deployment: finds it, verifies it, unpacks it."""

from __future__ import annotations

from functools import partial
from typing import Final

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import PROJECT, TITLE, Descriptor
from torvyn.artifact.prepare import default_cache_dir, was_packed_here
from torvyn.artifact.registry.fetch import FetchOptions, fetch
from torvyn.artifact.signature.policy import TrustPolicy
from torvyn.artifact.unpack import unpack
from torvyn.edge.failures import not_a_project
from torvyn.edge.generations import Deployment, GenerationRecord
from torvyn.edge.generations.records import Facts
from torvyn.errors import Diagnostic

VERSION: Final = "org.opencontainers.image.version"


def add_artifact(
    deployment: Deployment, reference: str, *, is_insecure: bool = False
) -> tuple[GenerationRecord, tuple[Diagnostic, ...]]:
    """Adds the artifact that a person named: in a layout, in a registry, or in the cache if the
    registry is away. What this machine's policy rejects is not added; what it warns of is
    returned. `is_insecure`: a registry on another machine may have no TLS."""
    fetched = fetch(reference, FetchOptions(TrustPolicy.load(), is_insecure=is_insecure))
    digest, layout = fetched.descriptor.digest, fetched.layout
    is_trusted = fetched.verification.is_verified or was_packed_here(digest, default_cache_dir())
    record = add_from_layout(
        deployment, layout, fetched.descriptor, reference, is_trusted=is_trusted
    )
    return record, fetched.warnings


def add_from_layout(
    deployment: Deployment,
    layout: Layout,
    descriptor: Descriptor,
    source: str,
    version: int | None = None,
    channel: str = "",
    *,
    is_trusted: bool = False,
) -> GenerationRecord:
    """Adds an artifact whose blobs are in a layout. All of them are verified first. `version` and
    `channel` are those that named it; `is_trusted`: whether its precompiled code may be used."""
    data, manifest = layout.read(descriptor), layout.manifest(descriptor)
    if manifest.artifact_type != PROJECT:
        raise not_a_project(descriptor.digest, manifest.artifact_type or "")
    title = " ".join(
        text for key in (TITLE, VERSION) if (text := manifest.annotations.get(key, ""))
    )
    fill = partial(unpack, layout, descriptor)
    facts = Facts(version=version, channel=channel, title=title, is_trusted=is_trusted)
    return deployment.add(fill, descriptor.digest, source, data, **facts)
