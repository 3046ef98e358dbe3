"""torvyn.lock: what it says, and which components must match it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from projects import make_project, pack_project

from torvyn._artifact.lock import Lock, LockedArtifact, LockedComponent, LockedFile
from torvyn._link.overrides import Overrides
from torvyn._link.project_linker import ProjectLinker
from torvyn.errors import ArtifactError, LinkError

DIGEST = st.binary(min_size=32, max_size=32).map(lambda data: f"sha256:{data.hex()}")
TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
FILES = st.lists(st.builds(LockedFile, TEXT, DIGEST), unique_by=lambda each: each.file).map(tuple)
LOCKS = st.builds(
    Lock,
    st.builds(LockedComponent, TEXT, TEXT, DIGEST, TEXT, DIGEST).map(lambda each: (each,)),
    FILES,
    st.builds(LockedArtifact, TEXT, DIGEST, TEXT).map(lambda each: (each,)),
    FILES,
)


@given(LOCKS)
def test_a_lock_is_what_its_text_says(lock: Lock) -> None:
    assert Lock.parse(lock.render().encode()) == lock


@pytest.mark.parametrize(
    "text",
    [
        *("schema = 2", "not toml", "schema = 1\ncomponent = 3", "schema = 1\n[[wheel]]\nx = 1"),
        'schema = 1\n[[component]]\nname = "a"',
        'schema = 1\n[[wheel]]\nfile = "a"\ndigest = "md5:1"',
    ],
)
def test_a_damaged_lock_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        Lock.parse(text.encode())
    assert caught.value.code == "artifact.bad-lock"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PASSWORD", "x")
    folder = make_project(tmp_path / "project")
    pack_project(folder)
    return folder


def replace_guard(project: Path) -> None:
    path = project / "components" / "guard.wasm"
    path.write_bytes(path.read_bytes() + b"\0\2\1x")


def edit_source(project: Path) -> None:
    (project / "components" / "enrich" / "sites.py").write_text('SUFFIX = "?"\n')


def linker(project: Path, **options: bool) -> ProjectLinker:
    return ProjectLinker.open(project / "Torvyn.toml", Overrides(**options))  # type: ignore[arg-type]


def codes(project: Path, **options: bool) -> list[str]:
    return [problem.code for problem in linker(project, **options).check()]


def test_a_project_matches_the_lock_of_its_last_pack(project: Path) -> None:
    assert codes(project) == []
    assert codes(project, is_locked=True) == []
    assert pack_project(project, is_locked=True).lock_changed is False


def test_a_wasm_file_that_was_replaced_is_refused(project: Path) -> None:
    replace_guard(project)

    assert codes(project) == ["link.lock-mismatch"]
    with pytest.raises(LinkError, match="does not match torvyn"):
        linker(project).plan()
    with pytest.raises(ArtifactError) as caught:
        pack_project(project)
    assert caught.value.code == "artifact.lock-mismatch"


def test_a_replaced_file_is_accepted_on_request(project: Path) -> None:
    replace_guard(project)

    assert pack_project(project, updates_lock=True).lock_changed
    assert codes(project) == []


def test_an_edited_source_runs_and_is_a_warning_of_check(project: Path) -> None:
    edit_source(project)

    assert linker(project).plan().name == "main"
    assert codes(project) == ["link.lock-outdated"]
    assert pack_project(project).lock_changed
    assert codes(project) == []


def test_an_edited_source_is_refused_where_everything_is_locked(project: Path) -> None:
    edit_source(project)

    assert codes(project, is_locked=True) == ["link.lock-mismatch"]
    with pytest.raises(ArtifactError) as caught:
        pack_project(project, is_locked=True)
    assert caught.value.code == "artifact.lock-outdated"


def test_a_project_without_a_lock_is_not_locked(project: Path) -> None:
    (project / "torvyn.lock").unlink()

    assert codes(project) == []
    assert codes(project, is_locked=True) == ["link.lock-mismatch"]


def test_a_damaged_lock_stops_every_command(project: Path) -> None:
    (project / "torvyn.lock").write_text("schema = 7\n")

    assert codes(project) == ["artifact.bad-lock"]
    with pytest.raises(LinkError, match="the lock file cannot be used"):
        linker(project).plan()


def test_other_bytes_of_the_same_sources_match_only_in_python() -> None:
    built = LockedComponent("a", "python", "sha256:1", "a.wasm", "sha256:2")
    again = replace(built, digest="sha256:3")

    assert built.matches(again)
    assert not built.matches(replace(again, sources="sha256:4"))
    assert not replace(built, language="c").matches(replace(again, language="c"))


def test_a_locked_pack_names_what_has_changed(project: Path) -> None:
    edit_source(project)

    with pytest.raises(ArtifactError, match="the lock file does not match component `enrich`"):
        pack_project(project, is_locked=True)
