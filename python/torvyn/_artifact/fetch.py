"""Fetches an artifact: a reference to a verified artifact in a layout, with its signatures.

A layout is used as it is. An artifact of a registry is looked for in the cache first if its digest
is known; otherwise the registry is asked. Its signatures, which are artifacts that refer to it, are
checked before its files are fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from torvyn._artifact import signature
from torvyn._artifact.cache import Cache, cache_folder
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import (
    COMPONENT,
    IMAGE_MANIFEST,
    MAX_ARTIFACT_BYTES,
    PROJECT,
    Descriptor,
    Digest,
    ImageManifest,
    invalid,
    not_found,
    too_large,
)
from torvyn._artifact.reference import LayoutReference, Reference, parse_reference
from torvyn._artifact.registry import Registry, list_referrers
from torvyn._artifact.registry_http import Connection, Limits
from torvyn._artifact.transfer import Progress, download, ignore_progress
from torvyn._artifact.trust import MAX_BUNDLES, TrustPolicy, Verification, verify
from torvyn._io.background_loop import run_apart
from torvyn.errors import ArtifactError, Diagnostic, MissingError, TorvynError


def attach_bundle(layout: Layout, subject: Descriptor, data: bytes) -> Descriptor:
    """Adds a signature of an artifact, which need not be here, to a layout."""
    blob = layout.add(signature.MEDIA_TYPE, data)
    plain = Descriptor(subject.media_type, subject.digest, subject.size)
    manifest = ImageManifest(signature.MEDIA_TYPE, (blob,), signature.ANNOTATIONS, plain)
    return layout.add_manifest(manifest)


def read_bundles(layout: Layout, digest: Digest) -> list[bytes]:
    """The signatures of an artifact that are in the layout."""
    bundles = []
    referrers = layout.referrers(digest, signature.MEDIA_TYPE, signature.LIMIT_BYTES)
    for referrer in referrers[:MAX_BUNDLES]:
        # A signature that cannot be read counts as one that is not trusted.
        data = b""
        with contextlib.suppress(TorvynError):
            blob = _bundle_blob(layout.manifest(referrer))
            data = layout.read(blob, signature.LIMIT_BYTES) if blob else b""
        bundles.append(data)
    return bundles


async def fetch_bundles(registry: Registry, digest: Digest, layout: Layout) -> None:
    """Adds the signatures that a registry lists to the layout. What is no signature of this
    artifact is left out: anyone who may push to the repository can add to the list."""
    listed = await list_referrers(registry, digest, signature.MEDIA_TYPE)
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
    found = await registry.find_manifest(referrer.digest, signature.LIMIT_BYTES)
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
        and manifest.layers[0].media_type == signature.MEDIA_TYPE
        and max(manifest.layers[0].size, manifest.config.size) <= signature.LIMIT_BYTES
    )
    return manifest.layers[0] if fits else None


PARALLEL: Final = 4
"""How many blobs are fetched or sent at once."""


@dataclass(frozen=True)
class FetchOptions:
    policy: TrustPolicy
    cache: Path = field(default_factory=cache_folder)
    is_offline: bool = False
    is_insecure: bool = False
    """Plain HTTP, also for other machines."""
    max_bytes: int = MAX_ARTIFACT_BYTES
    limits: Limits = field(default_factory=Limits)
    progress: Progress = ignore_progress
    starts: Progress = ignore_progress
    """Called with the number of bytes of the artifact before they are fetched."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """An artifact whose blobs are all in the layout."""

    source: str
    """Without tag and digest: what the rules of a policy name."""
    layout: Layout
    descriptor: Descriptor
    verification: Verification
    warnings: tuple[Diagnostic, ...] = ()


def fetch(reference: str, options: FetchOptions) -> Fetched:
    """Fetches from wherever the reference points to. Raises what the policy rejects."""
    parsed = parse_reference(reference)
    if isinstance(parsed, LayoutReference):
        return _from_layout(parsed, options)
    return run_apart(fetch_remote(parsed, options))


async def fetch_remote(reference: Reference, options: FetchOptions) -> Fetched:
    """Fetches from a registry, or from the cache."""
    return await _Fetch(reference, options).run()


def source_of(reference: Reference | LayoutReference) -> str:
    if isinstance(reference, LayoutReference):
        return f"oci:{reference.folder.resolve()}"
    return f"oci://{reference.host}/{reference.repository}"


def _from_layout(reference: LayoutReference, options: FetchOptions) -> Fetched:
    layout = Layout(reference.folder)
    descriptor = layout.resolve(reference.target)
    source = source_of(reference)
    bundles = read_bundles(layout, descriptor.digest)
    rule = options.policy.rule_for(source)
    verification = verify(source, descriptor.digest, bundles, rule).enforce()
    return Fetched(source, layout, descriptor, verification, verification.warnings)


class _Fetch:
    def __init__(self, reference: Reference, options: FetchOptions) -> None:
        self._reference = reference
        self._options = options
        self._cache = Cache(options.cache)
        self._source = source_of(reference)
        self._warnings: list[Diagnostic] = []

    async def run(self) -> Fetched:
        if self._options.is_offline:
            return self._from_cache(self._known_digest(), "`--offline` was given")
        if self._reference.digest is not None:
            cached = self._cache.find(self._reference.digest)
            if cached is not None and self._verify(cached.digest).is_verified:
                return self._fetched(cached)
        try:
            return await self._from_registry()
        except MissingError as error:
            if error.code not in ("artifact.registry-unreachable", "artifact.registry-failed"):
                raise
            digest = self._reference.digest or self._cached_tag()
            if digest is None or self._cache.find(digest) is None:
                raise
            return self._from_cache(digest, error.message)

    # From the cache

    def _known_digest(self) -> Digest:
        digest = self._reference.digest or self._cached_tag()
        if digest is None:
            raise self._not_cached("`--offline` was given")
        return digest

    def _cached_tag(self) -> Digest | None:
        remembered = self._cache.recall(self._reference)
        return remembered[0] if remembered else None

    def _from_cache(self, digest: Digest, reason: str) -> Fetched:
        cached = self._cache.find(digest)
        if cached is None:
            raise self._not_cached(reason)
        if self._reference.digest is None and (known := self._cache.recall(self._reference)):
            age = _age(datetime.now(UTC) - known[1])
            message = f"`{self._reference}` is the artifact that it was {age} ago: {reason}"
            hint = "name a digest to use exactly one artifact"
            self._warnings.append(Diagnostic("artifact.stale-tag", message, None, hint, "warning"))
        return self._fetched(cached)

    def _not_cached(self, reason: str) -> MissingError:
        message = f"`{self._reference}` was never fetched on this machine, and {reason}"
        hint = "run `torvyn pull` with a network, or copy a layout and use `oci:FOLDER`"
        return MissingError("artifact.not-cached", message, hint=hint)

    # From the registry

    async def _from_registry(self) -> Fetched:
        options, reference = self._options, self._reference
        connection = Connection(
            reference.host, is_insecure=options.is_insecure, limits=options.limits
        )
        async with connection:
            registry = Registry(connection, reference.repository)
            found = await registry.find_manifest(reference.target)
            if found is None:
                raise not_found(f"artifact `{reference.target}`", registry.name)
            descriptor, data = found
            if descriptor.media_type != IMAGE_MANIFEST:
                raise invalid(f"`{reference}` is a list of images, not an artifact of torvyn")
            with self._cache.staging() as staged:
                staged.add(IMAGE_MANIFEST, data)
                manifest = staged.manifest(descriptor)
                _check_size(manifest, options.max_bytes)
                await fetch_bundles(registry, descriptor.digest, staged)
                self._verify(descriptor.digest, staged).enforce()
                size_bytes = sum(blob.size for blob in manifest.blobs)
                self._cache.make_room(1 + len(staged.index().manifests), size_bytes)
                await self._download(registry, manifest)
                self._cache.store(descriptor, data, staged)
        if reference.digest is None:
            self._cache.remember(reference, descriptor.digest)
        return self._fetched(descriptor)

    async def _download(self, registry: Registry, manifest: ImageManifest) -> None:
        self._options.starts(sum(blob.size for blob in manifest.blobs))
        free = asyncio.Semaphore(PARALLEL)

        async def one(blob: Descriptor) -> None:
            async with free:
                await download(registry, blob, self._cache.layout, self._options.progress)

        await all_of(one(blob) for blob in manifest.blobs)

    def _verify(self, digest: Digest, *staged: Layout) -> Verification:
        rule = self._options.policy.rule_for(self._source)
        layouts = (*staged, self._cache.layout)
        bundles = dict.fromkeys(each for layout in layouts for each in read_bundles(layout, digest))
        return verify(self._source, digest, list(bundles), rule)

    def _fetched(self, descriptor: Descriptor) -> Fetched:
        verification = self._verify(descriptor.digest).enforce()
        warnings = (*self._warnings, *verification.warnings)
        return Fetched(self._source, self._cache.layout, descriptor, verification, warnings)


async def all_of(tasks: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs the tasks at the same time. The first error cancels the others, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _check_size(manifest: ImageManifest, max_bytes: int) -> None:
    if manifest.artifact_type in (PROJECT, COMPONENT):
        manifest.files(max_bytes)
    total = sum(blob.size for blob in manifest.blobs)
    if total > max_bytes:
        raise too_large(f"the artifact has {total} bytes; the limit is {max_bytes}")


def _age(age: timedelta) -> str:
    hours = age.total_seconds() / 3600
    if hours < 1:
        return f"{max(1, round(hours * 60))} min"
    return f"{round(hours)} h" if hours < 48 else f"{round(hours / 24)} days"
