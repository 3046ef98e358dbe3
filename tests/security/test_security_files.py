"""Files: what is granted is reached; every way out of a granted folder is shut and counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(project) -> Path:
    folder = project.folder / "data"
    (folder / "inner").mkdir(parents=True)
    (folder / "note.txt").write_text("hello")
    (project.folder / "secret.txt").write_text("secret")
    return folder


def test_files_inside_the_grant_are_read_and_written(project, data: Path) -> None:
    asked = (f"read {data}/note.txt", f"write {data}/new.txt", f"rename {data}/new.txt {data}/n2")

    answers, denied = project.try_(*asked, grants=["filesystem:write:data"])

    assert (answers, denied) == (["ok hello", "ok", "ok"], {})
    assert (data / "n2").read_text() == "written"


def test_a_folder_granted_for_reading_is_not_changed(project, data: Path) -> None:
    changes = [f"write {data}/new", f"remove {data}/note.txt", f"folder {data}/more"]
    changes += [f"rename {data}/note.txt {data}/n2", f"link {data}/note.txt {data}/n3"]

    answers, denied = project.try_(*changes, grants=["filesystem:read:data"])

    assert answers == ["no"] * len(changes)
    assert denied == {"filesystem:write": len(changes)}
    assert sorted(os.listdir(data)) == ["inner", "note.txt"]


ESCAPES = ["../secret.txt", "inner/../../secret.txt", "way-out", "folder-out/secret.txt"]


@pytest.mark.parametrize("verb", ["read", "write", "stat"])
@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_of_the_granted_folder(project, data: Path, verb: str, path: str) -> None:
    (data / "way-out").symlink_to(project.folder / "secret.txt")
    (data / "folder-out").symlink_to(project.folder)

    answers, denied = project.try_(f"{verb} {data}/{path}", grants=["filesystem:write:data"])

    assert (answers, sum(denied.values())) == (["no"], 1)
    assert (project.folder / "secret.txt").read_text() == "secret"


def test_nothing_is_moved_or_linked_out_of_the_granted_folder(project, data: Path) -> None:
    out = [f"rename {data}/note.txt {data}/../note.txt", f"link {data}/../secret.txt {data}/mine"]
    out += [f"symlink {project.folder}/secret.txt {data}/mine", f"remove {data}/../secret.txt"]

    answers, denied = project.try_(*out, grants=["filesystem:write:data"])

    assert (answers, denied) == (["no"] * 4, {"filesystem:write": 4})
    assert sorted(os.listdir(data)) == ["inner", "note.txt"]


def test_without_a_grant_there_is_no_file_at_all(project, data: Path) -> None:
    answers, _ = project.try_(f"read {data}/note.txt", "read /etc/passwd", "write x", grants=[])

    assert answers == ["no"] * 3


def test_a_hard_link_inside_the_folder_is_a_file_of_the_folder(project, data: Path) -> None:
    os.link(project.folder / "secret.txt", data / "shared.txt")

    answers, denied = project.try_(f"read {data}/shared.txt", grants=["filesystem:read:data"])

    assert (answers, denied) == (["ok secret"], {})
