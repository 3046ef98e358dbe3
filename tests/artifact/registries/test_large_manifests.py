"""Large manifests are parsed once, however often a list names them or a command needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_registry import scripted

from torvyn._artifact import signature
from torvyn._artifact.fetch import FetchOptions, attach_bundle, fetch, read_bundles
from torvyn._artifact.keys import SigningKey
from torvyn._artifact.layout import Layout, copy_artifact, write_file
from torvyn._artifact.oci import (
    MAX_LAYERS,
    PROJECT,
    REF_NAME,
    TITLE,
    Descriptor,
    Digest,
    ImageIndex,
    ImageManifest,
    digest_of,
)
from torvyn._artifact.trust import Rule, TrustPolicy
from torvyn._artifact.unpack import prepare_project
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.update import add_from_layout

KEY = SigningKey.generate()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[Digest]:
    """How often each manifest was parsed."""
    counts: Counter[Digest] = Counter()
    parse = ImageManifest.parse.__func__  # type: ignore[attr-defined]

    def counted(cls: type[ImageManifest], data: bytes) -> ImageManifest:
        counts[digest_of(data)] += 1
        manifest: ImageManifest = parse(cls, data)
        return manifest

    monkeypatch.setattr(ImageManifest, "parse", classmethod(counted))
    return counts


def large(layout: Layout, note: str = "") -> Descriptor:
    layer = layout.add("text/plain", b"x", {TITLE: "Torvyn.toml"})
    notes = {f"note-{number}": "x" * 50 for number in range(500)}
    return layout.add_manifest(ImageManifest(PROJECT, (layer,), {**notes, "note": note}))


@pytest.fixture
def repeated(tmp_path: Path) -> tuple[Layout, Descriptor]:
    """A layout whose index names one manifest as often as it may."""
    layout = Layout.create(tmp_path / "dist")
    artifact = replace(large(layout), artifact_type=None)
    tags = (replace(artifact, annotations={REF_NAME: f"t{n}"}) for n in range(MAX_LAYERS))
    write_file(layout.folder / "index.json", ImageIndex(tuple(tags)).serialize())
    return layout, artifact


OPERATIONS: dict[str, Callable[[Layout, Descriptor, Path], object]] = {
    "referrers": lambda layout, artifact, folder: layout.referrers(artifact.digest),
    "copy": lambda layout, artifact, folder: copy_artifact(layout, artifact, folder, "copy"),
    "unpack": prepare_project,
    "deploy": lambda layout, artifact, folder: add_from_layout(
        Deployment(folder), layout, artifact, "test"
    ),
    "list": lambda layout, artifact, folder: [*layout.manifests()],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_manifest_that_is_listed_a_thousand_times_is_parsed_once(
    parsed: Counter[Digest], repeated: tuple[Layout, Descriptor], tmp_path: Path, name: str
) -> None:
    parsed.clear()
    layout = Layout(repeated[0].folder)

    for _ in range(3):
        OPERATIONS[name](layout, repeated[1], tmp_path / "target")

    assert parsed[repeated[1].digest] <= 1


def test_a_pull_parses_a_manifest_once_per_place(
    parsed: Counter[Digest], repeated: tuple[Layout, Descriptor], tmp_path: Path
) -> None:
    options = FetchOptions(TrustPolicy((Rule("", "allow"),)), tmp_path / "cache")
    with scripted(repeated[0]) as registry:
        parsed.clear()
        fetch(f"oci://{registry.host}/plant:t7", options)

    # Before the verdict, and in the cache.
    assert parsed[repeated[1].digest] <= 2


def test_manifests_that_are_about_nothing_are_not_parsed_and_hide_no_signature(
    parsed: Counter[Digest], tmp_path: Path
) -> None:
    layout = Layout.create(tmp_path / "dist")
    artifact = large(layout)
    others = [large(layout, str(number)) for number in range(50)]
    attach_bundle(layout, artifact, signature.sign(artifact.digest, KEY))
    parsed.clear()

    assert len(read_bundles(Layout(layout.folder), artifact.digest)) == 1
    assert not any(parsed[other.digest] for other in others)


def test_a_search_for_referrers_ends_before_it_takes_long(
    parsed: Counter[Digest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout.create(tmp_path / "dist")
    artifact = large(layout)
    size_bytes = artifact.size
    for number in range(30):
        large(layout, f"{artifact.digest} {number}")
    monkeypatch.setattr("torvyn._artifact.layout._PARSED_BYTES", 10 * size_bytes)
    parsed.clear()

    assert Layout(layout.folder).referrers(artifact.digest) == []
    assert 0 < parsed.total() <= 11
    monkeypatch.setattr("torvyn._artifact.layout._READ_BYTES", 5 * size_bytes)
    parsed.clear()
    Layout(layout.folder).referrers(artifact.digest)
    assert parsed.total() <= 5


def test_a_changed_blob_is_found_although_its_manifest_is_known(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path / "dist")
    artifact = large(layout)
    layout.manifest(artifact)
    path = layout.path(artifact.digest)
    path.write_bytes(path.read_bytes().replace(b"note-1", b"note_1", 1))

    with pytest.raises(Exception, match="its digest is"):
        layout.manifest(artifact)
