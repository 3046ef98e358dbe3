"""The cache: what was fetched once works without a network, and says how old a tag is."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from registry_artifacts import add_artifact
from scripted_registry import Fault, ScriptedRegistry, scripted

from torvyn._artifact import signature as bundle
from torvyn._artifact.cache import Cache
from torvyn._artifact.fetch import FetchOptions, attach_bundle, fetch, read_bundles
from torvyn._artifact.keys import SigningKey
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import (
    IMAGE_INDEX,
    IMAGE_MANIFEST,
    PROJECT,
    TITLE,
    Descriptor,
    Digest,
    ImageIndex,
    ImageManifest,
)
from torvyn._artifact.reference import Reference
from torvyn._artifact.trust import Rule, TrustPolicy
from torvyn._cli import app
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


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


REFUSED = {
    "not signed": STRICT,
    "signed by another": TrustPolicy((Rule("", "reject", (SigningKey.generate().public,)),)),
}


@pytest.mark.parametrize("policy", REFUSED.values(), ids=list(REFUSED))
def test_an_artifact_that_is_refused_leaves_nothing_in_the_cache(
    registry: ScriptedRegistry, layout: Layout, options: FetchOptions, policy: TrustPolicy
) -> None:
    if policy is REFUSED["signed by another"]:
        artifact = layout.resolve("1.0")
        listed = attach_bundle(layout, artifact, bundle.sign(artifact.digest, KEY))
        registry.fault = referrers(replace(listed, artifact_type=bundle.MEDIA_TYPE))
    Cache(options.cache)
    before = files(options.cache)

    with pytest.raises(ArtifactError, match="not signed"):
        fetch(f"oci://{registry.host}/plant:1.0", replace(options, policy=policy))

    assert files(options.cache) == before


def referrers(*listed: Descriptor) -> Fault:
    """A registry that lists these as what refers to any artifact."""

    async def fault(request: web.Request) -> web.StreamResponse | None:
        if "/referrers/" not in request.path:
            return None
        return web.Response(body=ImageIndex(listed).serialize(), content_type=IMAGE_INDEX)

    return fault


def store(cache: Cache, number: int, *, shared: bytes = b"", signed: bool = False) -> Descriptor:
    """An artifact of 1000 bytes, and those that it shares with others."""
    cache.make_room(1 + signed, 0)
    data = [b"%04d" % number * 250, *([shared] if shared else [])]
    layers = [cache.layout.add("text/plain", each, {TITLE: f"{i}"}) for i, each in enumerate(data)]
    manifest = ImageManifest(PROJECT, tuple(layers))
    with cache.staging() as staged:
        descriptor = manifest.descriptor()
        if signed:
            attach_bundle(staged, descriptor, bundle.sign(descriptor.digest, KEY))
        cache.layout.add("application/vnd.oci.empty.v1+json", b"{}")
        cache.store(descriptor, manifest.serialize(), staged)
    use(cache, descriptor.digest)
    return descriptor


_ticks = iter(range(10**9))


def use(cache: Cache, digest: Digest) -> bool:
    """Uses an artifact one second after the last use of any."""
    if cache.find(digest) is None:
        return False
    at = 1_700_000_000 + next(_ticks)
    os.utime(cache.layout.path(digest), (at, at))
    return True


@pytest.mark.parametrize("seed", range(3))
def test_the_last_used_artifacts_stay_whatever_is_fetched(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    cache = Cache(tmp_path / "cache", max_entries=6)
    last_used: list[Digest] = []

    for number in range(30):
        if last_used and draw.random() < 0.4:
            digest = draw.choice(last_used)
        else:
            shared = draw.choice([b"", b"a" * 100, b"b" * 100])
            digest = store(cache, number, shared=shared, signed=draw.random() < 0.5).digest
        if use(cache, digest):
            last_used = [each for each in last_used if each != digest] + [digest]
        here = [each.digest for each in cache.artifacts()]
        assert here == last_used[::-1][: len(here)]
        assert here or not last_used
        assert len(cache.layout.index().manifests) <= 6
        # Nothing is missing, and nothing is left of what was removed.
        named = {b.digest for _, m in cache.layout.manifests() for b in m.blobs}
        listed = {each.digest for each in cache.layout.index().manifests}
        blobs = {f"sha256:{path.name}" for path in (tmp_path / "cache/blobs/sha256").iterdir()}
        assert named | listed <= blobs <= named | listed | {EMPTY_DIGEST}
        last_used = last_used[-len(here) :]


EMPTY_DIGEST = Descriptor.of("application/json", b"{}").digest


def test_the_cache_is_bounded_in_bytes(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", max_bytes=10_000)

    for number in range(15):
        store(cache, number)
        cache.make_room(1, 2000)
        assert cache.size_bytes() <= 8000

    assert len(cache.artifacts()) >= 3


@pytest.mark.parametrize("count", [1000, 1024, 1025])
def test_a_full_cache_takes_another_artifact(
    registry: ScriptedRegistry, options: FetchOptions, count: int
) -> None:
    """An index of 1,025 entries could be neither read nor made smaller."""
    cache = Cache(options.cache)
    blob = cache.layout.add("text/plain", b"x", {TITLE: "x"})
    manifests = [ImageManifest(PROJECT, (blob,), {"n": str(n)}) for n in range(count)]
    for manifest in manifests[:1024]:
        path = cache.layout.path(manifest.descriptor().digest)
        path.write_bytes(manifest.serialize())
    index = ImageIndex(tuple(each.descriptor() for each in manifests))
    (options.cache / "index.json").write_bytes(index.serialize())

    digest = fetch(f"oci://{registry.host}/plant:1.0", options).descriptor.digest

    assert Cache(options.cache).artifacts()[0].digest == digest
    assert fetch(f"oci://{registry.host}/plant@{digest}", replace(options, is_offline=True))


def test_tags_of_artifacts_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", max_entries=3)
    names = [Reference.parse(f"oci://localhost/plant:{number}") for number in range(10)]
    for number, name in enumerate(names):
        cache.remember(name, store(cache, number).digest)

    cache.make_room(2, 0)

    assert [name for name in names if cache.recall(name)] == names[-1:]


def test_cached_artifacts_are_listed_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = Cache(tmp_path / "torvyn" / "artifacts")
    stored = [store(cache, number, signed=number == 2) for number in range(3)]
    cache.remember(Reference.parse("oci://localhost/plant:1"), stored[2].digest)

    def run(*words: str) -> dict[str, object]:
        assert app.run(["cache", *words, "--format", "json"]) == 0
        found: dict[str, object] = json.loads(capfd.readouterr().out)
        return found

    listed = run("list")["artifacts"]
    assert isinstance(listed, list)
    assert [each["digest"] for each in listed] == [each.digest for each in stored[::-1]]
    assert (listed[0]["signatures"], listed[0]["references"]) == (1, ["localhost/plant:1"])
    assert run("clean", "--keep", "1")["removed"] == [stored[1].digest, stored[0].digest]
    assert app.run(["cache", "list"]) == 0
    assert "localhost/plant:1" in capfd.readouterr().out
    assert run("clean")["removed"] == [stored[2].digest]
    assert run("list")["artifacts"] == []


class CountingLayout(Layout):
    reads = 0

    def read(self, descriptor: Descriptor, limit_bytes: int = 4 << 20) -> bytes:
        self.reads += 1
        return super().read(descriptor, limit_bytes)


def test_each_digest_of_an_index_is_read_once(layout: Layout) -> None:
    artifact, other = add_artifact(layout), add_artifact(layout, "2.0", more=b"x")
    index = ImageIndex((*[other] * 500, artifact, *[other] * 500))
    (layout.folder / "index.json").write_bytes(index.serialize())
    counting = CountingLayout(layout.folder)

    assert counting.referrers(artifact.digest) == []

    assert counting.reads == 2


@pytest.mark.parametrize("worthless", [b"", b"{}", b"[" * 9999, b"\xff", None])
def test_an_entry_that_cannot_be_read_does_not_hide_a_signature(
    layout: Layout, worthless: bytes | None
) -> None:
    artifact = add_artifact(layout)
    attach_bundle(layout, artifact, signature := bundle.sign(artifact.digest, KEY))
    entry = Descriptor.of(IMAGE_MANIFEST, worthless or b"gone")
    if worthless is not None:
        layout.add(IMAGE_MANIFEST, worthless)
    layout.list_manifest(entry)

    assert read_bundles(layout, artifact.digest) == [signature]
