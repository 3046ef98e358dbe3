"""Wheels in an artifact: those of the requirements, for the right machine, without pip there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from projects import make_project, pack_project
from wheel_files import make_wheel

from torvyn._artifact.wheels import Machine, WheelName, fitting_wheels, install
from torvyn.errors import ArtifactError, MissingError

HERE = Machine.here()
GATEWAY = Machine((3, 11), "aarch64", (2, 31))
COMPONENT = """\
import torvyn, greeting, helper

class Enrich(torvyn.Processor):
    def init(self, config):
        pass

    def process(self, element):
        return f"{element.text} {greeting.VERSION} {helper.VERSION}"
"""


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("py2-none-any", False),
        ("cp311-cp311-manylinux_2_28_aarch64", True),
        ("cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64", True),
        ("cp311-cp311-manylinux_2_34_aarch64", False),
        ("cp311-cp311-manylinux_2_28_x86_64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", False),
        ("cp39-abi3-manylinux2014_aarch64", True),
        ("cp312-abi3-manylinux2014_aarch64", False),
        ("cp311-cp311-musllinux_1_2_aarch64", False),
        ("py3-none-macosx_11_0_arm64", False),
        ("py3-none-linux_aarch64", True),
    ],
)
def test_a_wheel_fits_by_its_tags(tag: str, fits: bool) -> None:
    assert WheelName.parse(f"x-1.0-{tag}.whl").fits(GATEWAY) is fits


def test_the_tags_of_this_machine_are_those_of_packaging() -> None:
    tags = [str(tag) for tag in sys_tags() if "musllinux" not in str(tag)]
    pure = [tag for tag in tags if not tag.startswith(("py30-", "cp30-", "cp31-"))]

    assert [tag for tag in pure if not WheelName.parse(f"x-1-{tag}.whl").fits(HERE)] == []


@pytest.mark.parametrize("name", ["x.whl", "x-1-py3-none.whl", "x-1-py3-a-b.zip", "-1-a-b-c.whl"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(ArtifactError, match="is not the name of a wheel"):
        WheelName.parse(name)


def test_one_fitting_wheel_of_each_package_is_chosen() -> None:
    wheels = [
        "wheels/a-1-cp311-cp311-manylinux2014_x86_64.whl",
        "wheels/a-1-cp311-cp311-manylinux2014_aarch64.whl",
        "wheels/b-2-py3-none-any.whl",
    ]

    assert fitting_wheels(wheels, GATEWAY) == wheels[1:]
    with pytest.raises(MissingError, match=r"no wheel of `a` for Python 3\.11 on aarch64"):
        fitting_wheels(wheels[:1], GATEWAY)


def test_what_a_wheel_installs_is_importable(tmp_path: Path) -> None:
    files = {"one.py": "", "x-1.data/purelib/two.py": "", "x-1.data/scripts/run": "", "p/q.py": ""}
    install([make_wheel(tmp_path, "x", "1", files=files)], tmp_path / "site")

    found = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.py")}
    assert found == {"one.py", "two.py", "p/q.py"}
    assert not list((tmp_path / "site").rglob("run"))


def linked(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        entry = zipfile.ZipInfo("link")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def escaping(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../escaped.py", "x")


@pytest.mark.parametrize("damage", [linked, truncated, escaping])
def test_a_malicious_wheel_is_refused(tmp_path: Path, damage: object) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    damage(wheel)  # type: ignore[operator]

    with pytest.raises(ArtifactError):
        install([wheel], tmp_path / "site")
    assert sorted(os.listdir(tmp_path)) == ["wheels"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose component needs two packages, and an index with several versions."""
    folder = make_project(tmp_path / "project")
    (folder / "components" / "enrich" / "component.py").write_text(COMPONENT)
    (folder / "components" / "enrich" / "requirements.txt").write_text("greeting>=1\n")
    index = tmp_path / "index"
    make_wheel(index, "greeting", "1.0", needs="helper")
    make_wheel(index, "helper", "0.5")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PASSWORD", "x")
    return folder


def wheels(project: Path, **options: object) -> set[str]:
    files = pack_project(project, has_wheels=True, **options).manifest.files()
    return {path for path in files if path.endswith(".whl")}


def test_the_wheels_of_the_requirements_are_packed(project: Path) -> None:
    expected = {"wheels/greeting-1.0-py3-none-any.whl", "wheels/helper-0.5-py3-none-any.whl"}

    assert wheels(project) == expected
    assert wheels(project, platforms=("aarch64-linux", "x86_64-linux")) == expected


def test_the_lock_file_keeps_the_versions(project: Path) -> None:
    before = wheels(project)
    make_wheel(project.parent / "index", "greeting", "2.0", needs="helper")

    assert wheels(project) == before
    assert "wheels/greeting-2.0-py3-none-any.whl" in wheels(project, updates_lock=True)


def test_a_wheel_with_another_content_is_refused(project: Path) -> None:
    wheels(project)
    make_wheel(project.parent / "index", "helper", "0.5", files={"helper.py": "EVIL = 1\n"})

    with pytest.raises(ArtifactError) as caught:
        wheels(project)
    assert caught.value.code == "artifact.lock-mismatch"


def test_a_package_that_no_index_has_is_reported(project: Path) -> None:
    (project / "requirements.txt").write_text("no-such-package\n")

    with pytest.raises(MissingError, match="no-such-package") as caught:
        wheels(project)
    assert caught.value.code == "artifact.wheels-failed"


def test_a_packed_project_imports_its_wheels_without_a_network(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels(project, output=tmp_path / "dist")
    project.rename(tmp_path / "gone")
    (tmp_path / "index").rename(tmp_path / "no-index")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "torvyn", "run", f"oci:{tmp_path / 'dist'}"]
    namespace = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        namespace = []

    done = subprocess.run([*namespace, *command], cwd=tmp_path, check=False, capture_output=True)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_text() == "a 1.0 0.5\nb 1.0 0.5\n"
