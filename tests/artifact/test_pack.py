"""Packing: everything that a project needs, nothing else, and the same bytes every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from projects import FILES, PACKED, content, make_project, pack_project

from torvyn.artifact.model import COMPONENT, PROJECT
from torvyn.errors import ArtifactError, TorvynError, UsageError

PACK = [sys.executable, "-m", "torvyn", "pack", "--output"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def test_an_artifact_has_what_the_project_needs_and_nothing_else(project: Path) -> None:
    made = pack_project(project)

    assert set(made.manifest.files()) == PACKED
    assert made.manifest.artifact_type == PROJECT
    assert made.layout.resolve("1.2.0").digest == made.descriptor.digest


def test_each_layer_has_the_bytes_and_the_type_of_its_file(project: Path) -> None:
    made = pack_project(project)

    files = made.manifest.files()
    assert {path: made.layout.read(files[path]).decode() for path in FILES} == FILES
    types = {path: files[path].media_type for path in files}
    assert types["components/guard.wasm"] == "application/wasm"
    assert types["components/enrich/component.py"] == "text/x-python"
    assert types["wit/own.wit"] == "application/vnd.torvyn.wit.v1"
    assert types["sbom.cdx.json"] == "application/vnd.cyclonedx+json"


def test_the_annotations_are_those_of_the_project(project: Path) -> None:
    annotations = pack_project(project, revision="abc123").manifest.annotations

    assert annotations == {
        "org.opencontainers.image.title": "gateway",
        "org.opencontainers.image.version": "1.2.0",
        "org.opencontainers.image.description": "Reads sensors",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": "https://example.org/gateway",
        "org.opencontainers.image.revision": "abc123",
    }


def test_a_second_pack_changes_nothing(project: Path) -> None:
    before = content(pack_project(project).layout)

    assert content(pack_project(project).layout) == before


def test_a_copy_of_the_files_gives_the_same_bytes(project: Path, tmp_path: Path) -> None:
    copy = make_project(tmp_path / "other" / "copy", is_reversed=True)
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))

    assert content(pack_project(copy).layout) == content(pack_project(project).layout)


@pytest.mark.parametrize(
    ("umask", "environment"),
    [
        (0o077, {"LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1"}),
        (0o000, {"LC_ALL": "C.UTF-8", "PASSWORD": "set here", "PYTHONHASHSEED": "2"}),
    ],
    ids=["private", "public"],
)
def test_the_bytes_do_not_depend_on_the_environment(
    project: Path, tmp_path: Path, umask: int, environment: dict[str, str]
) -> None:
    here = content(pack_project(project).layout)

    subprocess.run(
        [*PACK, str(tmp_path / "new")],
        cwd=project,
        env={**os.environ, **environment},
        umask=umask,
        check=True,
        capture_output=True,
    )

    assert content(pack_project(project, output=tmp_path / "new").layout) == here


def test_a_time_is_added_only_if_it_is_fixed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")

    annotations = pack_project(project).manifest.annotations

    assert annotations["org.opencontainers.image.created"] == "1970-01-02T00:00:00Z"


def test_a_component_is_packed_alone(project: Path) -> None:
    made = pack_project(project, component="enrich", tags=("0.3",))

    own = {"component.py", "sites.py", "table.csv", "sbom.cdx.json", "provenance.json"}
    assert set(made.manifest.files()) == {*own, "wit/own.wit"}
    assert made.manifest.artifact_type == COMPONENT
    assert made.manifest.annotations["org.opencontainers.image.title"] == "enrich"


def test_a_sandboxed_component_is_packed_as_one_wasm_file(project: Path) -> None:
    files = pack_project(project, component="guard").manifest.files()

    assert [path for path in files if path.endswith(".wasm")] == ["guard.wasm"]


def test_patterns_add_files_and_leave_files_out(project: Path) -> None:
    with (project / "Torvyn.toml").open("a") as file:
        file.write('\n[pack]\ninclude = ["*.md"]\nexclude = ["**/*.csv", "*.log"]\n')

    files = set(pack_project(project, include=("data",)).manifest.files())

    assert files == (PACKED | {"notes.md"}) - {"components/enrich/table.csv"}


def test_a_wasm_file_that_a_node_names_is_packed(project: Path) -> None:
    manifest = project / "Torvyn.toml"
    text = manifest.read_text().replace('component = "guard"', 'component = "components/x.wasm"')
    manifest.write_text(text)
    (project / "components" / "guard.wasm").rename(project / "components" / "x.wasm")
    text = text.replace("components/guard.wasm", "components/x.wasm")
    manifest.write_text(text)

    assert "components/x.wasm" in pack_project(project).manifest.files()


def outside(project: Path) -> None:
    manifest = project / "Torvyn.toml"
    manifest.write_text(manifest.read_text().replace("components/enrich", "../enrich"))
    (project / "components" / "enrich").rename(project.parent / "enrich")


def link_to_the_outside(project: Path) -> None:
    (project.parent / "secret").write_text("secret")
    (project / "components" / "enrich" / "link").symlink_to(project.parent / "secret")


def pattern_of_the_outside(project: Path) -> None:
    (project.parent / "secret").write_text("secret")
    with (project / "Torvyn.toml").open("a") as file:
        file.write('\n[pack]\ninclude = ["../secret"]\n')


@pytest.mark.parametrize("change", [outside, link_to_the_outside, pattern_of_the_outside])
def test_a_file_outside_the_project_is_refused(project: Path, change: object) -> None:
    change(project)  # type: ignore[operator]

    with pytest.raises(ArtifactError) as caught:
        pack_project(project)
    assert caught.value.code == "artifact.outside"
    assert not (project / "dist").exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"component": "nobody"}, "cli.component-unknown"),
        ({"include": ("nothing/**",)}, "artifact.bad-pattern"),
        ({"include": ("/etc/passwd",)}, "artifact.bad-pattern"),
        ({"tags": ("not a tag",)}, "artifact.bad-reference"),
        ({"is_locked": True}, "artifact.lock-outdated"),
    ],
)
def test_a_wrong_option_is_refused(project: Path, options: dict[str, object], code: str) -> None:
    with pytest.raises(TorvynError) as caught:
        pack_project(project, **options)
    assert caught.value.code == code


def test_an_epoch_that_is_no_number_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")

    with pytest.raises(UsageError, match="not a number of seconds"):
        pack_project(project)


def test_the_provenance_names_every_other_file_and_every_source(project: Path) -> None:
    made = pack_project(project, revision="abc123")
    files = made.manifest.files()
    statement = json.loads(made.layout.read(files["provenance.json"]))

    subjects = {each["name"]: f"sha256:{each['digest']['sha256']}" for each in statement["subject"]}
    assert subjects == {path: files[path].digest for path in PACKED - {"provenance.json"}}
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["revision"] == "abc123"
    assert {each["name"] for each in definition["resolvedDependencies"]} == {"enrich", "guard"}


def test_the_sbom_is_valid_and_names_the_components(project: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    made = pack_project(project)
    data = made.layout.read(made.manifest.files()["sbom.cdx.json"])

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode()) is None
    bill = json.loads(data)
    assert {each["name"] for each in bill["components"]} == {"enrich", "guard"}
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert "timestamp" not in bill["metadata"]
