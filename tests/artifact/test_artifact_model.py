"""Descriptors, manifests and indexes: what is written can be read, and the rest is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._artifact.oci import (
    MAX_LAYERS,
    MAX_MANIFEST_BYTES,
    PROJECT,
    TITLE,
    Descriptor,
    ImageIndex,
    ImageManifest,
    canonical,
    check_digest,
    digest_of,
    parse_object,
)
from torvyn.errors import ArtifactError

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
descriptors = st.builds(
    Descriptor.of,
    st.sampled_from(["application/wasm", "text/x-python"]),
    st.binary(max_size=8),
    st.dictionaries(texts, texts, max_size=3),
)
manifests = st.builds(
    ImageManifest,
    st.just(PROJECT),
    st.lists(descriptors, max_size=4).map(tuple),
    st.dictionaries(texts, texts, max_size=3),
    st.none() | descriptors,
)


@given(manifests)
def test_a_manifest_is_what_its_bytes_say(manifest: ImageManifest) -> None:
    assert ImageManifest.parse(manifest.serialize()) == manifest


@given(st.lists(descriptors, max_size=4))
def test_an_index_is_what_its_bytes_say(listed: list[Descriptor]) -> None:
    index = ImageIndex(tuple(listed))

    assert ImageIndex.parse(index.serialize()) == index


def test_the_descriptor_of_a_manifest_names_its_bytes() -> None:
    manifest = ImageManifest(PROJECT, ())

    assert manifest.descriptor().digest == digest_of(manifest.serialize())
    assert manifest.descriptor().size == len(manifest.serialize())


def test_canonical_json_has_sorted_keys_and_no_spaces() -> None:
    assert canonical({"b": [1, "ä"], "a": {}}) == '{"a":{},"b":[1,"ä"]}'.encode()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"\xff", b'{"a":1,"a":2}', b'{"a":NaN}'),
        *(b'{"a":' + b"[" * 100_000, b'{"a":' + b"9" * 10_000 + b"}"),
    ],
    ids=["empty", "list", "not-utf8", "two-keys", "nan", "deep", "long-number"],
)
def test_json_from_outside_is_refused_unless_every_reader_understands_the_same(
    data: bytes,
) -> None:
    with pytest.raises(ArtifactError) as caught:
        parse_object(data, "it", 1 << 20)

    assert caught.value.code == "artifact.invalid"


GOOD = json.loads(
    ImageManifest(PROJECT, (Descriptor.of("application/wasm", b"x", {TITLE: "a"}),)).serialize()
)


@pytest.mark.parametrize(
    "change",
    [
        {"schemaVersion": 1},
        {"mediaType": "application/vnd.docker.distribution.manifest.v2+json"},
        {"layers": None},
        {"layers": ["x"]},
        {"layers": [{**GOOD["layers"][0], "size": -1}]},
        {"layers": [{**GOOD["layers"][0], "size": True}]},
        {"layers": [{**GOOD["layers"][0], "size": 1.5}]},
        {"layers": [{**GOOD["layers"][0], "digest": "sha256:../../etc/passwd"}]},
        {"layers": [{**GOOD["layers"][0], "digest": "md5:" + "0" * 32}]},
        {"layers": [{**GOOD["layers"][0], "mediaType": "x\r\ny"}]},
        {"layers": [{**GOOD["layers"][0], "annotations": {"a": 1}}]},
        {"layers": [{**GOOD["layers"][0], "urls": ["http://localhost/"]}]},
        {"config": None},
        {"subject": 1},
        {"annotations": ["x"]},
        {"artifactType": 7},
    ],
    ids=str,
)
def test_a_malformed_manifest_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError) as caught:
        ImageManifest.parse(canonical({**GOOD, **change}))

    assert caught.value.code == "artifact.invalid"


def test_a_manifest_has_a_limited_size() -> None:
    with pytest.raises(ArtifactError, match="more than 4194304 bytes") as caught:
        ImageManifest.parse(b" " * (MAX_MANIFEST_BYTES + 1))

    assert caught.value.code == "artifact.too-large"


def test_a_manifest_has_a_limited_number_of_layers() -> None:
    layers = [GOOD["layers"][0]] * (MAX_LAYERS + 1)

    with pytest.raises(ArtifactError, match="1025 layers; the limit is 1024") as caught:
        ImageManifest.parse(canonical({**GOOD, "layers": layers}))

    assert caught.value.code == "artifact.too-large"


def test_the_files_of_a_manifest_have_a_limited_total_size() -> None:
    layers = tuple(Descriptor.of("text/plain", b"12345", {TITLE: name}) for name in "ab")

    with pytest.raises(ArtifactError, match="has 10 bytes; the limit is 9"):
        ImageManifest(PROJECT, layers).files(max_bytes=9)


@pytest.mark.parametrize("text", ["sha256:" + "A" * 64, "sha256:" + "0" * 63, "sha512:x", "", "0"])
def test_only_a_lower_case_sha256_is_a_digest(text: str) -> None:
    with pytest.raises(ArtifactError, match="is not a digest"):
        check_digest(text)
