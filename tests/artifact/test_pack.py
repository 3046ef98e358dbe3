"""Packing: everything that a project needs, nothing else, and the same bytes every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from projects import FILES, PACKED, content, make_project, pack_project

from torvyn._artifact.oci import COMPONENT, PROJECT
from torvyn._artifact.sbom import Material, sbom
from torvyn._manifest.records import ProjectRecord
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


ONLY_CLICK = """
import sys

ALLOWED = {*sys.stdlib_module_names, "click", "torvyn"}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and "site-packages" not in str(path or ""):
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)


sys.meta_path.insert(0, Blocker())
"""
"""A plain installation: everything but torvyn and what it requires is hidden."""


@pytest.mark.promise("edge.artifacts")
@pytest.mark.parametrize("arguments", [[], ["--component", "enrich"], ["--component", "guard"]])
def test_a_plain_installation_packs_and_reads_artifacts(
    project: Path, tmp_path: Path, arguments: list[str]
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(ONLY_CLICK)
    environ = {**os.environ, "PYTHONPATH": str(hidden), "PASSWORD": "x"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=project,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    assert "No module named 'cryptography'" in run("-c", "import cryptography").stderr
    done = run("-m", "torvyn", "pack", "--output", "dist", *arguments)
    assert (done.returncode, done.stdout) == (0, "oci:dist:1.2.0\n"), done.stderr
    assert run("-m", "torvyn", "inspect", "oci:dist:1.2.0").returncode == 0
    if not arguments:
        ended = run("-m", "torvyn", "run", "oci:dist:1.2.0", "flow.main")
        assert "2 lines produced" in ended.stderr
    signed = run("-m", "torvyn", "sign", "--generate-key", "plant")
    assert signed.stderr.startswith("error[artifact.package-missing]: signatures need the package")
    assert "'cryptography>=45'" in signed.stderr


LICENSES = ["MIT", "apache-2.0", "MIT OR Apache-2.0", "Proprietary", "Our own (see LICENSE)", ""]


@pytest.mark.parametrize("license", LICENSES)
def test_an_sbom_is_what_the_library_of_cyclonedx_writes(license: str) -> None:
    """The library is the oracle: it is not needed to pack."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    materials = [
        Material("enrich", "1.2.0", sha256="a" * 64),
        Material("oci://host/a:1", "sha256:b", "oci", "b" * 64),
        Material("ruamel-yaml", "1.0+x", "pypi", "c" * 64),
        Material("serde", "1.0.219-rc.1", "cargo"),
        Material("bare"),
    ]
    licenses = [LicenseFactory().make_from_string(license)] if license else []
    application = ComponentType.APPLICATION
    main = Component(
        name="g", version="1.2.0", type=application, bom_ref="project", licenses=licenses
    )
    parts = [
        Component(
            name=each.name,
            version=each.version or None,
            type=ComponentType.LIBRARY,
            bom_ref=each.ref,
            purl=PackageURL(each.kind, None, each.name, each.version)
            if each.kind in ("pypi", "cargo")
            else None,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each.sha256)]
            if each.sha256
            else [],
        )
        for each in materials
    ]
    bill = Bom()
    bill.metadata.component = main
    bill.components.update(parts)
    bill.register_dependency(main, parts)

    project = ProjectRecord(name="g", version="1.2.0", license=license or None)
    ours = json.loads(sbom(project, materials))
    theirs = json.loads(JsonV1Dot6(bill).output_as_string())

    del theirs["metadata"]["timestamp"], theirs["serialNumber"], ours["serialNumber"]
    assert in_order(ours) == in_order(theirs)


def in_order(bill: dict[str, Any]) -> dict[str, Any]:
    """Both list the same components; their order has no meaning."""
    parts = sorted(bill["components"], key=lambda each: str(each["bom-ref"]))
    dependencies = sorted(bill["dependencies"], key=lambda each: str(each["ref"]))
    return {**bill, "components": parts, "dependencies": dependencies}
