"""A pull that is cut after every single byte: nothing of it is used, and the next one continues."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from registry_artifacts import ALLOW
from scale import sample
from scripted_registry import ScriptedRegistry, cut, scripted

from torvyn._artifact.fetch import FetchOptions, fetch
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import PROJECT, TITLE, Descriptor, ImageManifest
from torvyn._artifact.registry_http import Limits
from torvyn._artifact.unpack import unpack
from torvyn.errors import MissingError

FILE = b"some bytes"
ONCE = Limits(connect_s=5, silence_s=5, tries=0)
STEP = sample(9, full=1)


def add_small(layout: Layout) -> Descriptor:
    layer = layout.add("text/plain", FILE, {TITLE: "a.txt"})
    return layout.add_manifest(ImageManifest(PROJECT, (layer,)), "1.0")


def has_blobs(options: FetchOptions) -> bool:
    return any(path.is_file() for path in (options.cache / "blobs").rglob("*"))


def read_again(registry: ScriptedRegistry, options: FetchOptions, folder: Path) -> bytes:
    """The file, from a second pull that nobody cuts."""
    fetched = fetch(f"oci://{registry.host}/plant:1.0", options)
    unpack(fetched.layout, fetched.descriptor, folder)
    return (folder / "a.txt").read_bytes()


class Budget:
    """Answers with bodies until so many bytes were sent, then cuts every answer."""

    def __init__(self, registry: ScriptedRegistry, count: int) -> None:
        self._registry, self._left = registry, count

    async def answer(self, request: web.Request) -> web.StreamResponse:
        whole = self._registry.serve(request)
        if whole.status >= 400 or request.method == "HEAD":
            return whole
        data = whole.body
        assert isinstance(data, bytes)
        part, self._left = data[: self._left], max(0, self._left - len(data))
        response = web.StreamResponse(status=whole.status, headers=whole.headers)
        response.content_length = len(data)
        await response.prepare(request)
        await response.write(part)
        if len(part) < len(data):
            cut(request)
        return response


def is_cut(registry: ScriptedRegistry, options: FetchOptions, count: int) -> bool:
    registry.fault = Budget(registry, count).answer
    try:
        fetch(f"oci://{registry.host}/plant:1.0", options)
    except MissingError as error:
        return error.code == "artifact.registry-unreachable"
    finally:
        registry.fault = ScriptedRegistry.fault
    return False


@pytest.mark.timeout(180)
def test_a_pull_may_be_cut_at_every_byte(layout: Layout, tmp_path: Path) -> None:
    artifact = add_small(layout)
    total = artifact.size + len(b"{}") + len(FILE)
    with scripted(layout) as registry:
        ends = {artifact.size - 1, artifact.size, total - 1, total}
        for count in sorted({*range(0, total, STEP), *ends}):
            options = FetchOptions(ALLOW, tmp_path / f"cache-{count}", limits=ONCE)
            assert is_cut(registry, options, count) == (count < total), count
            if count < artifact.size:
                assert not has_blobs(options), count
            else:
                assert read_again(registry, options, tmp_path / f"files-{count}") == FILE, count
