"""Transfers that are cut, slow or damaged: resumed where they stopped, and never used unchecked."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from dataclasses import replace

import pytest
from aiohttp import web
from registry_artifacts import DATA, QUICK, add_artifact
from registry_servers import RegistryServer
from scripted_registry import (
    CuttingProxy,
    ScriptedRegistry,
    begin,
    cut,
    on_a_loop,
    ranged,
    scripted,
)

from torvyn._artifact.fetch import Fetched, FetchOptions, fetch
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import Descriptor, digest_of
from torvyn._artifact.publish import PublishOptions, publish
from torvyn._artifact.reference import Reference
from torvyn._artifact.registry_http import Limits
from torvyn._io.background_loop import run_apart
from torvyn.errors import ArtifactError, MissingError, TorvynError

BLOB = digest_of(DATA)


@pytest.fixture
def registry(layout: Layout) -> Iterator[ScriptedRegistry]:
    add_artifact(layout)
    with scripted(layout) as registry:
        yield registry


def pull(registry: ScriptedRegistry, options: FetchOptions) -> Fetched:
    return fetch(f"oci://{registry.host}/plant:1.0", options)


def is_cached(options: FetchOptions) -> bool:
    return Layout(options.cache).path(BLOB).exists()


def cuts_after(most: int, until: int = len(DATA)):
    """Sends at most so many bytes of the blob per request, and nothing beyond `until`."""

    async def fault(request: web.Request) -> web.StreamResponse | None:
        if BLOB not in request.path:
            return None
        start = request.http_range.start or 0
        whole = ranged(request, DATA)
        response = web.StreamResponse(status=whole.status, headers=whole.headers)
        await response.prepare(request)
        await response.write(DATA[start : min(start + most, until)])
        cut(request)
        return response

    return fault


@pytest.mark.parametrize("most", [len(DATA) - 1, len(DATA) // 2, 9_973, 2_000])
def test_a_download_continues_where_it_was_cut(
    registry: ScriptedRegistry, options: FetchOptions, most: int
) -> None:
    registry.fault = cuts_after(most)

    fetched = pull(registry, options)

    assert fetched.layout.path(BLOB).read_bytes() == DATA
    starts = [request.http_range.start or 0 for request in registry.asked(BLOB)]
    assert starts == sorted(set(starts)), "bytes were fetched twice"


def test_the_next_run_continues_what_an_earlier_one_began(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    registry.fault = cuts_after(len(DATA), until=100_000)
    with pytest.raises(MissingError, match="cannot reach"):
        pull(registry, options)
    registry.fault = ScriptedRegistry.fault
    registry.requests.clear()

    pull(registry, options)

    [request] = registry.asked(BLOB)
    assert request.http_range.start == 100_000


def test_a_damaged_beginning_of_an_earlier_run_is_fetched_again(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    cache = Layout.create(options.cache)
    (cache.folder / "partial").mkdir()
    (cache.folder / "partial" / BLOB.removeprefix("sha256:")).write_bytes(b"x" * 100)

    assert pull(registry, options).layout.path(BLOB).read_bytes() == DATA


@pytest.mark.parametrize("length", [len(DATA), len(DATA) + 1])
def test_a_damaged_blob_of_the_cache_is_fetched_again(
    registry: ScriptedRegistry, options: FetchOptions, length: int
) -> None:
    cache = Layout.create(options.cache)
    cache.path(BLOB).write_bytes(b"x" * length)

    assert pull(registry, options).layout.path(BLOB).read_bytes() == DATA


@pytest.mark.parametrize("status", [200, 206, 416])
def test_a_registry_that_does_not_resume_is_asked_for_everything(
    registry: ScriptedRegistry, options: FetchOptions, status: int
) -> None:
    cache = Layout.create(options.cache)
    (cache.folder / "partial").mkdir()
    (cache.folder / "partial" / BLOB.removeprefix("sha256:")).write_bytes(DATA[:100])

    async def fault(request: web.Request) -> web.StreamResponse | None:
        if BLOB not in request.path or request.http_range.start is None:
            return None
        body = b"" if status == 416 else DATA
        return web.Response(status=status, body=body, headers={"Content-Range": "bytes 0-9/*"})

    registry.fault = fault

    assert pull(registry, options).layout.path(BLOB).read_bytes() == DATA


def test_a_blob_with_other_content_is_refused(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    async def fault(request: web.Request) -> web.StreamResponse | None:
        return web.Response(body=b"x" * len(DATA)) if BLOB in request.path else None

    registry.fault = fault

    with pytest.raises(ArtifactError) as caught:
        pull(registry, options)
    assert caught.value.code == "artifact.digest-mismatch"
    assert not is_cached(options)


@pytest.mark.parametrize("kind", ["manifests", "blobs"])
def test_an_endless_body_is_refused(
    registry: ScriptedRegistry, options: FetchOptions, kind: str
) -> None:
    async def fault(request: web.Request) -> web.StreamResponse | None:
        if f"/{kind}/" not in request.path:
            return None
        response = await begin(request, Content_Type="application/vnd.oci.image.manifest.v1+json")
        while True:
            await response.write(b" " * 65536)

    registry.fault = fault

    with pytest.raises(ArtifactError) as caught:
        pull(registry, options)
    assert caught.value.code == "artifact.too-large"
    assert not is_cached(options)


def test_a_compressed_body_is_not_unpacked(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    async def fault(request: web.Request) -> web.StreamResponse | None:
        packed = {"Content-Encoding": "gzip"}
        is_blob = BLOB in request.path
        return web.Response(body=gzip.compress(DATA), headers=packed) if is_blob else None

    registry.fault = fault

    with pytest.raises(TorvynError):
        pull(registry, options)
    assert not is_cached(options)


def test_a_registry_that_cuts_after_each_byte_is_given_up(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    async def fault(request: web.Request) -> web.StreamResponse | None:
        if "/blobs/" not in request.path:
            return None
        whole = registry.serve(request)
        assert isinstance(whole.body, bytes)
        response = web.StreamResponse(status=whole.status, headers=whole.headers)
        await response.prepare(request)
        await response.write(whole.body[:1])
        cut(request)
        return response

    registry.fault = fault
    limits = Limits(silence_s=0.2, least_bytes_per_s=1_000_000, tries=2, first_delay_s=0.001)

    with pytest.raises(MissingError) as caught:
        pull(registry, replace(options, limits=limits))
    assert caught.value.code == "artifact.registry-unreachable"


def test_a_slow_body_is_given_up(registry: ScriptedRegistry, options: FetchOptions) -> None:
    async def fault(request: web.Request) -> web.StreamResponse | None:
        if BLOB not in request.path:
            return None
        response = await begin(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.01)

    registry.fault = fault
    slow = replace(options, limits=Limits(silence_s=0.2, least_bytes_per_s=1_000_000))

    with pytest.raises(MissingError) as caught:
        pull(registry, slow)
    assert caught.value.code == "artifact.registry-slow"


def test_a_silent_registry_is_given_up(registry: ScriptedRegistry, options: FetchOptions) -> None:
    async def fault(_request: web.Request) -> None:
        await asyncio.Event().wait()

    registry.fault = fault
    impatient = replace(options, limits=replace(QUICK, silence_s=0.1))

    with pytest.raises(MissingError, match="cannot reach"):
        pull(registry, impatient)


def test_a_changed_manifest_is_refused(registry: ScriptedRegistry, options: FetchOptions) -> None:
    layout = registry.layout
    assert layout is not None
    wanted, other = layout.resolve("1.0"), add_artifact(layout, "2.0", evil=b"evil")

    async def fault(request: web.Request) -> web.StreamResponse | None:
        kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
        is_asked = wanted.digest in request.path and "/manifests/" in request.path
        return web.Response(body=layout.read(other), headers=kind) if is_asked else None

    registry.fault = fault

    with pytest.raises(ArtifactError, match=other.digest):
        fetch(f"oci://{registry.host}/plant@{wanted.digest}", options)


def oversized(layout: Layout, **changes: object) -> Descriptor:
    artifact = add_artifact(layout)
    manifest = layout.manifest(artifact)
    layer = replace(manifest.layers[0], **changes)  # type: ignore[arg-type]
    return layout.add_manifest(replace(manifest, layers=(layer,)), "1.0")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"size": 9 << 30}, "artifact.too-large"),
        ({"annotations": {"org.opencontainers.image.title": "../evil"}}, "artifact.bad-path"),
    ],
)
def test_what_cannot_be_unpacked_is_not_fetched(
    registry: ScriptedRegistry, options: FetchOptions, changes: dict[str, object], code: str
) -> None:
    assert registry.layout is not None
    oversized(registry.layout, **changes)

    with pytest.raises(TorvynError) as caught:
        pull(registry, options)

    assert caught.value.code == code
    assert registry.asked("/blobs/") == []


@pytest.mark.parametrize("cuts", [[100_000], [70_000, 140_000], [30_000] * 3])
def test_an_upload_continues_where_it_was_cut(
    server: RegistryServer, layout: Layout, options: FetchOptions, cuts: list[int]
) -> None:
    proxy, name = CuttingProxy(server.host, [*cuts]), f"cut/r{sum(cuts)}"
    artifact = add_artifact(layout, unique=str(cuts).encode() + server.host.encode() * 20_000)
    patient = PublishOptions(chunk_bytes=64 * 1024, limits=Limits(first_delay_s=0.001))
    with on_a_loop(proxy.start):
        target = Reference.parse(f"oci://{proxy.host}/{name}:1.0")
        run_apart(publish(layout, artifact, target, patient))

    assert proxy.cuts == []
    found = fetch(f"oci://{server.host}/{name}:1.0", options)
    assert found.descriptor.digest == artifact.digest
