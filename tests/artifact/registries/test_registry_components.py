"""Components of registries: their signatures are checked, and they run in the sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from torvyn._artifact.layout import Layout
from torvyn._artifact.lock import Lock, LockedArtifact
from torvyn._artifact.oci import COMPONENT, TITLE, Descriptor, ImageManifest
from torvyn._artifact.publish import PublishOptions, publish
from torvyn._artifact.reference import Reference
from torvyn._cli.app import run
from torvyn._io.background_loop import run_apart

WASM = Path(__file__).parents[2] / "sandbox" / "guests" / "filter.wasm"
PROJECT = """
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.source]
component = "lines"
config = {{ path = "lines.txt" }}
[flow.main.nodes.guard]
component = "{component}"
config = "blocked_word"
[flow.main.nodes.sink]
component = "console"
[[flow.main.edges]]
from = "source"
to = "guard"
[[flow.main.edges]]
from = "guard"
to = "sink"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "lines.txt").write_text("good\nblocked_word\nfine\n")
    monkeypatch.chdir(folder)
    return folder


def write(project: Path, component: str) -> None:
    (project / "Torvyn.toml").write_text(PROJECT.format(component=component))


def add_component(layout: Layout, tag: str, **files: bytes) -> Descriptor:
    files = files or {"filter.wasm": WASM.read_bytes()}
    layers = [layout.add("application/wasm", data, {TITLE: name}) for name, data in files.items()]
    return layout.add_manifest(ImageManifest(COMPONENT, tuple(layers)), tag)


def publish_component(layout: Layout, reference: str) -> Descriptor:
    component = add_component(layout, "1.0")
    run_apart(publish(layout, component, Reference.parse(reference), PublishOptions()))
    return component


def test_a_component_of_a_registry_runs(
    project: Path, layout: Layout, repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_component(layout, f"{repository}:1.0")
    write(project, f"{repository}:1.0")

    assert run(["run"]) == 0

    out, err = capsys.readouterr()
    assert "good" in out
    assert "blocked_word" not in out
    assert "warning[artifact.signature-missing]" in err


def test_an_unsigned_component_is_rejected(
    project: Path, layout: Layout, repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_component(layout, f"{repository}:1.0")
    write(project, f"{repository}:1.0")
    folder = project.parent / "XDG_CONFIG_HOME" / "torvyn"
    folder.mkdir(parents=True)
    (folder / "trust.toml").write_text('default = "reject"')

    assert run(["check"]) == 2

    assert "error[artifact.signature-missing]" in capsys.readouterr().err


def test_a_component_of_a_layout_is_relative_to_the_project(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_component(Layout.create(project / "parts"), "1.0")
    write(project, "oci:parts:1.0")

    assert run(["run", "--manifest", str(project)]) == 0
    assert "fine" in capsys.readouterr().out


def test_the_lock_file_decides_which_artifact_a_tag_is(
    project: Path, layout: Layout, repository: str
) -> None:
    locked = publish_component(layout, f"{repository}:1.0")
    broken = add_component(layout, "1.0", **{"filter.wasm": b"broken"})
    move = PublishOptions(may_replace=True)
    run_apart(publish(layout, broken, Reference.parse(f"{repository}:1.0"), move))
    write(project, f"{repository}:1.0")
    assert run(["run"]) == 2

    lock = Lock(artifacts=(LockedArtifact(f"{repository}:1.0", locked.digest),))
    (project / "torvyn.lock").write_text(lock.render())

    assert run(["run"]) == 0


def test_a_component_without_a_guest_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_component(Layout.create(project / "parts"), "1.0", **{"component.py": b"print('evil')"})
    write(project, "oci:parts:1.0")

    assert run(["run"]) == 2

    out, err = capsys.readouterr()
    assert "error[link.component-unsupported]" in err
    assert "evil" not in out


@pytest.mark.parametrize("command", ["run", "link", "check", "pack"])
def test_a_registry_that_is_away_is_not_a_mistake_of_the_project(
    project: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write(project, "oci://127.0.0.1:1/parts/guard:1.0")

    assert run([command]) == 3

    err = capsys.readouterr().err
    assert (
        "error[artifact.registry-unreachable]: cannot reach 127.0.0.1:1: connection refused" in err
    )
    assert "Torvyn.toml:10:" in err


def test_a_mistake_of_the_project_counts_more_than_a_registry_that_is_away(project: Path) -> None:
    write(project, "oci://127.0.0.1:1/parts/guard:1.0")
    with (project / "Torvyn.toml").open("a") as file:
        file.write('[[flow.main.edges]]\nfrom = "nobody"\nto = "sink"\n')

    assert run(["run"]) == 2
