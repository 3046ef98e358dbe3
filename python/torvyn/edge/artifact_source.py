"""Adds an artifact to a deployment: finds it, verifies it, unpacks it."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import PROJECT, TITLE, Descriptor
from torvyn.artifact.registry.fetch import FetchOptions, fetch
from torvyn.artifact.signature.policy import TrustPolicy
from torvyn.artifact.unpack import unpack
from torvyn.edge.failures import not_a_project
from torvyn.edge.generations import Deployment, GenerationRecord

logger = logging.getLogger("torvyn.edge")

_VERSION: Final = "org.opencontainers.image.version"


def add_artifact(deployment: Deployment, reference: str) -> GenerationRecord:
    """Adds the artifact that a person named."""
    layout, descriptor = find_artifact(reference)
    return add_from_layout(deployment, layout, descriptor, reference)


def find_artifact(reference: str) -> tuple[Layout, Descriptor]:
    """The artifact in a layout or a registry, if the trust policy of this machine allows it."""
    fetched = fetch(reference, FetchOptions(TrustPolicy.load()))
    for warning in fetched.warnings:
        logger.warning("%s", warning.message)
    return fetched.layout, fetched.descriptor


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
