"""The paths of files in an artifact: none leaves the folder, and no two collide."""

from __future__ import annotations

import pytest

from torvyn._artifact.paths import (
    MAX_DEPTH,
    MAX_PART_BYTES,
    MAX_PATH_BYTES,
    check_path,
    check_paths,
)
from torvyn.errors import ArtifactError

ESCAPES = ["", "/etc/passwd", "../a", "a/../../b", "a/./b", "a//b", "a/", "./a", "..", "."]
ODD = ["a\\b", "a\0b", "a\nb", "\x1b[31m", "\ud800", "a\u202eb"]
LONG = [
    "/".join("a" * (MAX_DEPTH + 1)),
    "a" * (MAX_PART_BYTES + 1),
    "/".join(["a" * 100] * (MAX_PATH_BYTES // 100 + 1)),
]


@pytest.mark.parametrize("path", [*ESCAPES, *ODD, *LONG], ids=ascii)
def test_an_unsafe_path_is_refused(path: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        check_path(path)

    assert caught.value.code == "artifact.bad-path"
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("path", ["Torvyn.toml", "a/b/c.py", "ä/ö.txt", "with space", "..a", "a.."])
def test_an_ordinary_path_is_accepted(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "paths",
    [
        *(["a", "a"], ["a", "A"], ["straße", "STRASSE"], ["\u00e4", "a\u0308"]),
        *(["a", "a/b"], ["a/b", "a"], ["A/b", "a"], ["x/y/z", "X/y"]),
    ],
    ids=ascii,
)
def test_two_files_with_one_path_are_refused(paths: list[str]) -> None:
    with pytest.raises(ArtifactError) as caught:
        check_paths(paths)

    assert caught.value.code == "artifact.bad-path"


def test_files_of_one_folder_are_accepted() -> None:
    check_paths(["a/b", "a/c", "a/d/e", "ab"])
