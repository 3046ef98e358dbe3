"""A layout: what was added is found again, and whatever differs from its digest is refused."""

from __future__ import annotations

import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import IMAGE_MANIFEST, PROJECT, REF_NAME, TITLE, Descriptor, ImageManifest
from torvyn.errors import ArtifactError, MissingError

OTHER = "application/vnd.example.signature.v1"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.create(tmp_path / "dist")


def artifact(layout: Layout, text: str = "text", *tags: str) -> Descriptor:
    layer = layout.add("text/plain", text.encode(), {TITLE: "file"})
    return layout.add_manifest(ImageManifest(PROJECT, (layer,)), *tags)


def test_a_blob_is_read_back(layout: Layout) -> None:
    blob = layout.add("text/plain", b"text")

    assert layout.read(blob) == b"text"
    with layout.open(blob) as file:
        assert file.read() == b"text"


def test_a_file_becomes_a_blob(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")

    assert layout.add_file("text/plain", tmp_path / "file") == layout.add("text/plain", b"text")
    assert [path.name for path in blobs(layout)] == [digest(layout.add("text/plain", b"text"))]


def blobs(layout: Layout) -> list[Path]:
    return list((layout.folder / "blobs" / "sha256").iterdir())


def digest(descriptor: Descriptor) -> str:
    return descriptor.digest.removeprefix("sha256:")


@pytest.mark.parametrize("data", [b"tExt", b"tex", b"textt", b""], ids=repr)
def test_a_changed_blob_is_refused_however_it_is_read(layout: Layout, data: bytes) -> None:
    blob = layout.add("text/plain", b"text")
    layout.path(blob.digest).write_bytes(data)

    for read in (layout.read, layout.verify, lambda each: layout.copy(each, io.BytesIO())):
        with pytest.raises(ArtifactError) as caught:
            read(blob)
        assert caught.value.code == "artifact.digest-mismatch"


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_blob_that_is_not_a_regular_file_is_refused(
    layout: Layout, tmp_path: Path, kind: str
) -> None:
    blob = layout.add("text/plain", b"text")
    path = layout.path(blob.digest).rename(tmp_path / "elsewhere")
    {
        "link": lambda: layout.path(blob.digest).symlink_to(path),
        "folder": lambda: layout.path(blob.digest).mkdir(),
        "pipe": lambda: os.mkfifo(layout.path(blob.digest)),
    }[kind]()

    assert not layout.has(blob)
    with pytest.raises(ArtifactError) as caught:
        layout.read(blob)
    assert caught.value.code == "artifact.invalid"


def test_a_large_blob_is_not_read_into_memory(layout: Layout) -> None:
    blob = layout.add("text/plain", b"text")

    with pytest.raises(ArtifactError, match="has 4 bytes; the limit is 3"):
        layout.read(blob, limit_bytes=3)


def test_a_missing_blob_is_reported(layout: Layout) -> None:
    with pytest.raises(MissingError, match="no such file") as caught:
        layout.read(Descriptor.of("text/plain", b"text"))

    assert caught.value.code == "artifact.unreadable"


def test_an_artifact_is_found_by_tag_and_by_digest(layout: Layout) -> None:
    found = artifact(layout, "text", "1.0", "latest")

    assert {each.digest for each in layout.tags().values()} == {found.digest}
    assert layout.resolve("1.0").digest == found.digest
    assert layout.resolve(found.digest).digest == found.digest
    assert layout.resolve().digest == found.digest


def test_a_tag_moves_and_the_old_artifact_keeps_its_digest(layout: Layout) -> None:
    old, new = artifact(layout, "old", "latest"), artifact(layout, "new", "latest")

    assert layout.resolve("latest").digest == new.digest
    with pytest.raises(MissingError):
        layout.resolve(old.digest)


def test_the_index_does_not_depend_on_the_order_of_writes(tmp_path: Path) -> None:
    one, two = Layout.create(tmp_path / "one"), Layout.create(tmp_path / "two")
    for layout, texts in ((one, "abc"), (two, "cab")):
        for text in texts:
            artifact(layout, text, f"tag-{text}")
        artifact(layout, "d")
        artifact(layout, "a")

    assert (one.folder / "index.json").read_bytes() == (two.folder / "index.json").read_bytes()


@pytest.mark.parametrize("target", ["nothing", "sha256:" + "0" * 64, None])
def test_an_unknown_artifact_is_reported_with_the_known_tags(
    layout: Layout, target: str | None
) -> None:
    artifact(layout, "a", "1.0")
    artifact(layout, "b", "2.0")

    with pytest.raises(MissingError) as caught:
        layout.resolve(target)
    assert caught.value.code == "artifact.not-found"
    assert "`1.0`, `2.0`" in (caught.value.hint or "")


def test_an_index_with_one_tag_twice_is_refused(layout: Layout) -> None:
    artifact(layout, "a", "1.0")
    artifact(layout, "b", "2.0")
    index = layout.folder / "index.json"
    index.write_text(index.read_text().replace('"2.0"', '"1.0"'))

    with pytest.raises(ArtifactError, match="two artifacts with the tag"):
        layout.resolve("1.0")


def test_referrers_are_found_by_their_subject_and_type(layout: Layout) -> None:
    subject, unrelated = artifact(layout, "a", "1.0"), artifact(layout, "b")
    signature = layout.add_manifest(ImageManifest(OTHER, (), subject=subject))

    assert [each.digest for each in layout.referrers(subject.digest)] == [signature.digest]
    assert len(layout.referrers(subject.digest, OTHER)) == 1
    assert layout.referrers(subject.digest, PROJECT) == []
    assert layout.referrers(unrelated.digest) == []


def test_a_finished_download_is_moved_into_the_layout(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "partial").write_bytes(b"text")
    descriptor = Descriptor.of("text/plain", b"text")

    layout.adopt(tmp_path / "partial", descriptor)

    assert layout.read(descriptor) == b"text"
    assert not (tmp_path / "partial").exists()


def test_a_damaged_download_stays_outside(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "partial").write_bytes(b"tExt")
    descriptor = Descriptor.of("text/plain", b"text")

    with pytest.raises(ArtifactError, match="its digest is"):
        layout.adopt(tmp_path / "partial", descriptor)

    assert (tmp_path / "partial").exists()
    assert blobs(layout) == []


def test_concurrent_writers_lose_no_tag(layout: Layout) -> None:
    def write(number: int) -> None:
        artifact(Layout(layout.folder), str(number), f"tag-{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))

    assert len(layout.tags()) == 40
    assert [path for path in blobs(layout) if path.name.startswith(".new-")] == []


@pytest.mark.parametrize("text", ["{}", '{"imageLayoutVersion":"2.0.0"}', "no"])
def test_a_folder_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "oci-layout").write_text(text)

    with pytest.raises(ArtifactError) as caught:
        Layout(tmp_path)
    assert caught.value.code == "artifact.invalid"


def test_a_folder_without_a_layout_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="is not an OCI layout"):
        Layout(tmp_path)


def test_a_manifest_is_listed_with_its_artifact_type(layout: Layout) -> None:
    artifact(layout, "a", "1.0")

    (listed,) = json.loads((layout.folder / "index.json").read_text())["manifests"]
    assert listed["artifactType"] == PROJECT
    assert listed["mediaType"] == IMAGE_MANIFEST
    assert listed["annotations"] == {REF_NAME: "1.0"}
