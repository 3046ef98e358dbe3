"""A packed project runs from anywhere: it reads what was packed, and writes where it is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from projects import make_project, pack_project

from torvyn._artifact.unpack import prepare
from torvyn.errors import ArtifactError, TorvynError

RESULT = "a roof!\nb cellar!\n"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """The artifact as a gateway has it: the project itself is gone."""
    project = make_project(tmp_path / "project")
    pack_project(project, output=tmp_path / "dist")
    project.rename(tmp_path / "gone")
    return tmp_path / "dist"


def run(folder: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> str:
    folder.mkdir(exist_ok=True)
    cache = {"XDG_CACHE_HOME": str(folder.parent / "cache"), "PASSWORD": "x"}
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "torvyn", "run", *arguments],
        cwd=folder,
        env={**os.environ, **cache},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.promise("edge.whole-deployments")
def test_a_packed_project_runs_where_it_is_started(layout: Path, tmp_path: Path) -> None:
    run(tmp_path / "here", f"oci:{layout}:1.2.0")

    assert (tmp_path / "here" / "out.txt").read_text() == RESULT


def test_nothing_is_written_into_the_unpacked_folder(layout: Path, tmp_path: Path) -> None:
    project = prepare(f"oci:{layout}", tmp_path / "cache" / "torvyn")
    before = sorted(project.folder.rglob("*"))

    run(tmp_path / "here", "--artifact", str(layout), "--set", "security.audit=file")

    assert sorted(project.folder.rglob("*")) == before
    assert set(os.listdir(tmp_path / "here")) == {"out.txt", "torvyn-audit.jsonl"}


@pytest.mark.promise("edge.offline")
def test_a_project_is_packed_and_runs_without_a_network(tmp_path: Path) -> None:
    namespace = ("unshare", "--map-root-user", "--net")
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs network namespaces")
    project = make_project(tmp_path / "project")
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cold")}
    command = [*namespace, sys.executable, "-m", "torvyn", "pack"]
    subprocess.run(command, cwd=project, env=environ, check=True, capture_output=True)

    run(tmp_path / "here", f"oci:{project / 'dist'}", prefix=namespace)

    assert (tmp_path / "here" / "out.txt").read_text() == RESULT


def test_the_command_line_still_names_files_of_the_current_folder(
    layout: Path, tmp_path: Path
) -> None:
    (tmp_path / "here" / "data").mkdir(parents=True)
    (tmp_path / "here" / "data" / "readings.txt").write_text("b\n")

    run(tmp_path / "here", f"oci:{layout}", "--input", "data/readings.txt")

    assert (tmp_path / "here" / "out.txt").read_text() == "b cellar!\n"


def test_an_artifact_is_unpacked_once(layout: Path, tmp_path: Path) -> None:
    first = prepare(str(layout), tmp_path / "cache")
    inode = first.folder.stat().st_ino

    assert prepare(f"oci:{layout}:1.2.0", tmp_path / "cache") == first
    assert first.folder.stat().st_ino == inode


def test_a_component_of_another_artifact_travels_with_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project")
    pack_project(project, component="guard", output=project / "parts", tags=("0.3",))
    text = (project / "Torvyn.toml").read_text()
    text = text.replace('component = "guard"', 'component = "oci:parts:0.3"')
    (project / "Torvyn.toml").write_text(text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "torvyn", "pack", "--output", str(tmp_path / "dist")]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    project.rename(tmp_path / "gone")
    shutil.rmtree(tmp_path / "cache")

    run(tmp_path / "here", f"oci:{tmp_path / 'dist'}")

    assert (tmp_path / "here" / "out.txt").read_text() == RESULT


def test_an_unpacked_folder_runs_like_its_artifact(layout: Path, tmp_path: Path) -> None:
    project = prepare(str(layout), tmp_path / "cache" / "torvyn")

    assert prepare(str(project.folder), tmp_path / "nowhere") == project
    run(tmp_path / "here", "--artifact", str(project.folder))

    assert (tmp_path / "here" / "out.txt").read_text() == RESULT


def test_a_cache_that_others_can_write_to_is_refused(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "cache" / "unpacked").mkdir(parents=True)
    (tmp_path / "cache" / "unpacked").chmod(0o777)

    with pytest.raises(ArtifactError) as caught:
        prepare(str(layout), tmp_path / "cache")
    assert caught.value.code == "artifact.cache-exposed"


def test_a_component_is_not_a_project(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    pack_project(project, component="guard")

    with pytest.raises(TorvynError, match="is a component, not a project"):
        prepare(str(project / "dist"), tmp_path / "cache")
