"""Unpacking: all files of an artifact or none, and nothing outside its folder."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import PROJECT, TITLE, Descriptor, ImageManifest
from torvyn._artifact.unpack import unpack
from torvyn.errors import ArtifactError, TorvynError

FILES = {"Torvyn.toml": b"toml", "components/a/component.py": b"py", "data/empty": b""}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.create(tmp_path / "dist")


def layers(layout: Layout, files: dict[str, bytes]) -> tuple[Descriptor, ...]:
    return tuple(
        layout.add("application/octet-stream", data, {TITLE: path}) for path, data in files.items()
    )


def pack(layout: Layout, *changed: Descriptor) -> Descriptor:
    return layout.add_manifest(ImageManifest(PROJECT, changed or layers(layout, FILES)), "1.0")


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_files_are_those_of_the_artifact(layout: Layout, tmp_path: Path) -> None:
    unpack(layout, pack(layout), tmp_path / "new" / "folder")

    assert content(tmp_path / "new" / "folder") == FILES
    assert os.listdir(tmp_path / "new") == ["folder"]


def test_unpacked_files_are_read_only(layout: Layout, tmp_path: Path) -> None:
    unpack(layout, pack(layout), tmp_path / "folder")

    modes = {path.stat().st_mode & 0o222 for path in (tmp_path / "folder").rglob("*.*")}
    assert modes == {0}


def test_unpacking_again_changes_nothing(layout: Layout, tmp_path: Path) -> None:
    unpack(layout, pack(layout), tmp_path / "folder")
    before = (tmp_path / "folder").stat().st_ino

    unpack(layout, pack(layout), tmp_path / "folder")

    assert (tmp_path / "folder").stat().st_ino == before


def test_two_processes_may_unpack_at_once(layout: Layout, tmp_path: Path) -> None:
    descriptor = pack(layout)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: unpack(layout, descriptor, tmp_path / "x" / "folder"), range(16)))

    assert os.listdir(tmp_path / "x") == ["folder"]
    assert content(tmp_path / "x" / "folder") == FILES


def malformed(layout: Layout, kind: str) -> Descriptor:
    one, two, three = layers(layout, FILES)
    if kind == "escape":
        return pack(layout, one, replace(two, annotations={TITLE: "../escaped"}))
    if kind == "absolute":
        return pack(layout, one, replace(two, annotations={TITLE: "/escaped"}))
    if kind == "no-title":
        return pack(layout, one, replace(two, annotations={}))
    if kind == "same-title":
        return pack(layout, one, replace(two, annotations={TITLE: "torvyn.TOML"}))
    if kind == "wrong-size":
        return pack(layout, one, replace(two, size=two.size + 1), three)
    if kind == "huge":
        return pack(layout, one, replace(two, size=1 << 40))
    if kind == "foreign":
        return layout.add_manifest(ImageManifest("application/vnd.example.v1", (one,)))
    _damage(layout, two, kind)
    return pack(layout, one, two, three)


def _damage(layout: Layout, blob: Descriptor, kind: str) -> None:
    path = layout.path(blob.digest)
    data = path.read_bytes()
    path.unlink()
    if kind == "wrong-digest":
        path.write_bytes(data[::-1])
    elif kind == "truncated":
        path.write_bytes(data[:-1])
    elif kind == "link":
        (layout.folder / "elsewhere").write_bytes(data)
        path.symlink_to(layout.folder / "elsewhere")
    else:
        assert kind == "missing"


CODES = {
    **dict.fromkeys(("escape", "absolute", "no-title", "same-title"), "artifact.bad-path"),
    **dict.fromkeys(("wrong-size", "wrong-digest", "truncated"), "artifact.digest-mismatch"),
    **{"huge": "artifact.too-large", "foreign": "artifact.invalid", "link": "artifact.invalid"},
    "missing": "artifact.unreadable",
}


@pytest.mark.parametrize("kind", CODES)
def test_a_malformed_artifact_is_refused_and_nothing_is_written(
    layout: Layout, tmp_path: Path, kind: str
) -> None:
    descriptor = malformed(layout, kind)
    (tmp_path / "room").mkdir()

    with pytest.raises(TorvynError) as caught:
        unpack(layout, descriptor, tmp_path / "room" / "folder")

    assert caught.value.code == CODES[kind]
    assert os.listdir(tmp_path / "room") == []
    assert sorted(os.listdir(tmp_path)) == ["dist", "room"]


def test_a_blob_that_changes_after_the_check_is_refused(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor, verify = pack(layout), layout.verify

    def verify_then_change(layer: Descriptor) -> None:
        verify(layer)
        if layer.size:
            layout.path(layer.digest).write_bytes(b"x" * layer.size)

    monkeypatch.setattr(layout, "verify", verify_then_change)
    with pytest.raises(ArtifactError) as caught:
        unpack(layout, descriptor, tmp_path / "room" / "folder")
    assert caught.value.code == "artifact.digest-mismatch"
    assert os.listdir(tmp_path / "room") == []
