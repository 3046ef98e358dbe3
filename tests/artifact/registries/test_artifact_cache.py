"""The cache: what was fetched once works without a network, and says how old a tag is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from registry_artifacts import add_artifact
from scripted_registry import ScriptedRegistry, scripted

from torvyn.artifact.layout import Layout
from torvyn.artifact.reference import Reference
from torvyn.artifact.registry.attach import attach_bundle
from torvyn.artifact.registry.cache import Cache
from torvyn.artifact.registry.fetch import FetchOptions, fetch
from torvyn.artifact.signature import bundle
from torvyn.artifact.signature.keys import SigningKey
from torvyn.artifact.signature.policy import Rule, TrustPolicy
from torvyn.errors import ArtifactError, MissingError

KEY = SigningKey.generate()
STRICT = TrustPolicy((Rule("", "reject", (KEY.public,)),))


@pytest.fixture
def registry(layout: Layout) -> Iterator[ScriptedRegistry]:
    add_artifact(layout)
    with scripted(layout) as registry:
        yield registry


@pytest.fixture
def gone(registry: ScriptedRegistry, options: FetchOptions) -> tuple[str, str]:
    """A registry that was pulled from and no longer answers: a tag and a digest of it."""
    name = f"oci://{registry.host}/plant"
    digest = fetch(f"{name}:1.0", options).descriptor.digest
    with scripted() as other:
        host = other.host
    cache = Cache(options.cache)
    cache.remember(Reference.parse(f"oci://{host}/plant:1.0"), digest)
    return f"oci://{host}/plant:1.0", f"oci://{host}/plant@{digest}"


def test_a_digest_in_the_cache_needs_no_registry(
    gone: tuple[str, str], options: FetchOptions
) -> None:
    fetched = fetch(gone[1], options)

    assert fetched.warnings == ()


def test_a_tag_in_the_cache_is_used_with_a_warning(
    gone: tuple[str, str], options: FetchOptions
) -> None:
    [warning] = fetch(gone[0], options).warnings

    assert warning.code == "artifact.stale-tag"
    assert "1 min ago" in warning.message


def test_offline_asks_no_registry(registry: ScriptedRegistry, options: FetchOptions) -> None:
    reference = f"oci://{registry.host}/plant:1.0"
    digest = fetch(reference, options).descriptor.digest
    registry.requests.clear()

    offline = fetch(reference, replace(options, is_offline=True))

    assert offline.descriptor.digest == digest
    assert registry.requests == []


@pytest.mark.parametrize("target", [":1.0", "@sha256:" + "0" * 64])
def test_offline_explains_what_is_not_in_the_cache(
    registry: ScriptedRegistry, options: FetchOptions, target: str
) -> None:
    with pytest.raises(MissingError) as caught:
        fetch(f"oci://{registry.host}/plant{target}", replace(options, is_offline=True))

    assert caught.value.code == "artifact.not-cached"
    assert registry.requests == []


def test_an_incomplete_artifact_is_not_used_offline(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    reference = f"oci://{registry.host}/plant:1.0"
    fetched = fetch(reference, options)
    layer = fetched.layout.manifest(fetched.descriptor).layers[0]
    fetched.layout.path(layer.digest).unlink()

    with pytest.raises(MissingError, match="was never fetched"):
        fetch(reference, replace(options, is_offline=True))


def test_an_unreachable_registry_without_a_cache_is_an_error(options: FetchOptions) -> None:
    with scripted() as registry:
        host = registry.host

    with pytest.raises(MissingError) as caught:
        fetch(f"oci://{host}/plant:1.0", options)
    assert caught.value.code == "artifact.registry-unreachable"


def test_a_signed_digest_in_the_cache_is_verified_without_a_network(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    digest = fetch(f"oci://{registry.host}/plant:1.0", options).descriptor.digest
    cached = Cache(options.cache).layout
    reference = f"oci://{registry.host}/plant@{digest}"
    offline = replace(options, is_offline=True, policy=STRICT)
    with pytest.raises(ArtifactError, match="is not signed"):
        fetch(reference, offline)

    attach_bundle(cached, cached.resolve(digest), bundle.sign(digest, KEY))

    assert fetch(reference, offline).verification.is_verified


def test_a_layout_is_used_where_it_is(layout: Layout, options: FetchOptions) -> None:
    artifact = add_artifact(layout)
    attach_bundle(layout, artifact, bundle.sign(artifact.digest, KEY))

    fetched = fetch(f"oci:{layout.folder}:1.0", replace(options, policy=STRICT))

    assert fetched.layout.folder == layout.folder
    assert fetched.verification.is_verified
    assert not options.cache.exists()
