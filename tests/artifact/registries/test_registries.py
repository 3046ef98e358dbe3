"""Artifacts in real registries: what is published is what is fetched, with its signatures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from registry_artifacts import add_artifact

from torvyn._artifact import signature as bundle
from torvyn._artifact.fetch import FetchOptions, attach_bundle, fetch, read_bundles
from torvyn._artifact.keys import SigningKey
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import Descriptor
from torvyn._artifact.publish import Published, PublishOptions, publish
from torvyn._artifact.reference import Reference
from torvyn._artifact.registry import Registry
from torvyn._artifact.registry_http import Connection
from torvyn._artifact.trust import Rule, TrustPolicy
from torvyn._artifact.unpack import unpack
from torvyn._io.background_loop import run_apart
from torvyn.errors import ArtifactError, MissingError


def push(layout: Layout, artifact: Descriptor, reference: str, **options: object) -> Published:
    chosen = replace(PublishOptions(), **options)  # type: ignore[arg-type]
    return run_apart(publish(layout, artifact, Reference.parse(reference), chosen))


def test_a_published_artifact_is_fetched_unchanged(
    repository: str, layout: Layout, options: FetchOptions, tmp_path: Path
) -> None:
    artifact = add_artifact(layout)
    push(layout, artifact, f"{repository}:1.0")

    fetched = fetch(f"{repository}:1.0", options)

    unpack(fetched.layout, fetched.descriptor, tmp_path / "files")
    assert fetched.descriptor.digest == artifact.digest
    assert (tmp_path / "files" / "data.bin").read_bytes() == bytes(range(256)) * 1000
    assert (tmp_path / "files" / "empty.txt").read_bytes() == b""


def test_blobs_that_are_there_are_not_sent_again(repository: str, layout: Layout) -> None:
    first = push(layout, add_artifact(layout), f"{repository}:1.0")
    second = push(layout, add_artifact(layout, "1.1", new=b"new"), f"{repository}:1.1")

    assert first.sent_blobs == first.blobs
    assert (second.sent_blobs, second.sent_bytes) == (1, len(b"new"))


def test_a_large_blob_is_sent_in_chunks(
    repository: str, layout: Layout, options: FetchOptions
) -> None:
    artifact = add_artifact(layout, large=b"0123456789" * 30_000)

    push(layout, artifact, f"{repository}:1.0", chunk_bytes=64 * 1024)

    assert fetch(f"{repository}:1.0", options).descriptor.digest == artifact.digest


def test_blobs_are_mounted_from_another_repository(repository: str, layout: Layout) -> None:
    artifact = add_artifact(layout, own=repository.encode())
    push(layout, artifact, f"{repository}:1.0")

    name = Reference.parse(repository).repository
    mounted = push(layout, artifact, f"{repository}-copy:1.0", mount_from=name)

    assert mounted.sent_blobs == 0


def test_a_tag_moves_only_if_asked_to(repository: str, layout: Layout) -> None:
    push(layout, add_artifact(layout), f"{repository}:1.0")
    changed = add_artifact(layout, new=b"new")

    with pytest.raises(MissingError, match=r"has another artifact with the tag `1\.0`"):
        push(layout, changed, f"{repository}:1.0")
    push(layout, changed, f"{repository}:1.0", may_replace=True)
    push(layout, changed, f"{repository}:1.0")  # the same artifact again is no change


def test_signatures_travel_with_the_artifact(
    repository: str, layout: Layout, options: FetchOptions
) -> None:
    artifact, key, backup = add_artifact(layout), SigningKey.generate(), SigningKey.generate()
    for each in (key, backup):
        attach_bundle(layout, artifact, bundle.sign(artifact.digest, each))
    assert push(layout, artifact, f"{repository}:1.0").referrers == 2

    rule = Rule("oci://", "reject", (key.public, backup.public), threshold=2)
    strict = replace(options, policy=TrustPolicy((rule,)))

    assert fetch(f"{repository}:1.0", strict).verification.signers == {key.public, backup.public}


def test_a_signature_can_be_published_later(
    repository: str, layout: Layout, options: FetchOptions
) -> None:
    artifact, key = add_artifact(layout), SigningKey.generate()
    push(layout, artifact, f"{repository}:1.0")
    strict = replace(options, policy=TrustPolicy((Rule("", "reject", (key.public,)),)))
    with pytest.raises(ArtifactError, match="is not signed"):
        fetch(f"{repository}:1.0", strict)

    attach_bundle(layout, artifact, bundle.sign(artifact.digest, key))
    push(layout, artifact, f"{repository}:1.0")

    assert fetch(f"{repository}:1.0", strict).verification.is_verified


def test_a_tag_that_was_moved_to_an_unsigned_artifact_is_rejected(
    repository: str, layout: Layout, options: FetchOptions
) -> None:
    good, key = add_artifact(layout), SigningKey.generate()
    attach_bundle(layout, good, bundle.sign(good.digest, key))
    push(layout, good, f"{repository}:1.0")
    evil = add_artifact(layout, evil=b"evil")
    attach_bundle(layout, evil, bundle.sign(good.digest, key))  # a signature of the good one
    push(layout, evil, f"{repository}:1.0", may_replace=True)

    strict = replace(options, policy=TrustPolicy((Rule("", "reject", (key.public,)),)))
    with pytest.raises(ArtifactError) as caught:
        fetch(f"{repository}:1.0", strict)

    assert caught.value.code == "artifact.signature-mismatch"
    assert fetch(f"{repository}@{good.digest}", strict).verification.is_verified


def test_a_rejected_artifact_leaves_no_blobs_in_the_cache(
    repository: str, layout: Layout, options: FetchOptions
) -> None:
    artifact = add_artifact(layout)
    push(layout, artifact, f"{repository}:1.0")

    with pytest.raises(ArtifactError):
        fetch(f"{repository}:1.0", replace(options, policy=TrustPolicy()))

    cached = Layout(options.cache)
    assert not any(cached.has(layer) for layer in layout.manifest(artifact).layers)


def test_the_tags_of_a_repository_are_listed(repository: str, layout: Layout) -> None:
    for tag in ("1.0", "1.1"):
        push(layout, add_artifact(layout, tag), f"{repository}:{tag}")
    reference = Reference.parse(repository)

    async def tags() -> list[str]:
        async with Connection(reference.host) as connection:
            return await Registry(connection, reference.repository).tags()

    listed = run_apart(tags())
    assert [tag for tag in listed if not tag.startswith("sha256-")] == ["1.0", "1.1"]


@pytest.mark.parametrize("target", [":none", "@sha256:" + "0" * 64])
def test_what_is_not_there_is_named(repository: str, options: FetchOptions, target: str) -> None:
    with pytest.raises(MissingError) as caught:
        fetch(f"{repository}{target}", options)

    assert caught.value.code == "artifact.not-found"
    assert target[1:] in caught.value.message


def test_the_cache_has_the_signatures(
    repository: str, layout: Layout, options: FetchOptions
) -> None:
    artifact = add_artifact(layout)
    signature = bundle.sign(artifact.digest, SigningKey.generate())
    attach_bundle(layout, artifact, signature)
    push(layout, artifact, f"{repository}:1.0")

    fetched = fetch(f"{repository}:1.0", options)

    assert read_bundles(fetched.layout, artifact.digest) == [signature]
