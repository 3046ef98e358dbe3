"""References: the forms that are read, and those that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from torvyn._artifact.oci import Digest
from torvyn._artifact.reference import LayoutReference, Reference, check_tag, parse_reference
from torvyn.errors import ArtifactError

DIGEST = Digest("sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://host/name", Reference("host", "name")),
        ("oci://host:5000/a/b-c:1.2", Reference("host:5000", "a/b-c", "1.2")),
        (f"oci://host/a@{DIGEST}", Reference("host", "a", None, DIGEST)),
        (f"oci://host/a:x@{DIGEST}", Reference("host", "a", "x", DIGEST)),
        ("oci://[::1]:5000/a", Reference("[::1]:5000", "a")),
        ("oci://127.0.0.1:5000/a:_x", Reference("127.0.0.1:5000", "a", "_x")),
        ("oci:./dist", LayoutReference(Path("dist"))),
        ("oci:dist:1.2", LayoutReference(Path("dist"), "1.2")),
        ("oci:/x:y/dist", LayoutReference(Path("/x:y/dist"))),
        (f"oci:dist@{DIGEST}", LayoutReference(Path("dist"), None, DIGEST)),
        ("dist", LayoutReference(Path("dist"))),
    ],
)
def test_a_reference_is_read(text: str, expected: Reference | LayoutReference) -> None:
    assert parse_reference(text) == expected
    assert parse_reference(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("oci://", "oci://host", "oci:///name", "oci://host/", "oci://host/Name", "oci://h/a//b"),
        *("oci://host/a:", "oci://host/a:x y", "oci://host/a:" + "x" * 129, "oci://h/../a"),
        *("oci://user:secret@host/a", "oci://host/a@sha256:0", "oci://ho st/a", "oci://h/a?b"),
        *("oci://host:999999/a", "oci:", f"oci:@{DIGEST}", "oci://host/" + "a" * 256),
    ],
)
def test_a_malformed_reference_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        parse_reference(text)

    assert caught.value.code == "artifact.bad-reference"


def test_the_digest_of_a_reference_wins_over_its_tag() -> None:
    assert Reference.parse(f"oci://host/a:x@{DIGEST}").target == DIGEST
    assert Reference.parse("oci://host/a:x").target == "x"
    assert Reference.parse("oci://host/a").target == "latest"


@pytest.mark.parametrize("text", ["", ".x", "a/b", "x" * 129, "ä", "a:b", "a\n"])
def test_a_malformed_tag_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError, match="is not a tag"):
        check_tag(text)
