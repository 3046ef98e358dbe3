"""docs/guides/install.md: its table has every extra, and its commands install what they say."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import measure_extras  # noqa: E402

from torvyn.errors import install_hint  # noqa: E402

PAGE = (ROOT / "docs" / "guides" / "install.md").read_text()
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]
MAKE_WHEEL = runpy.run_path(str(ROOT / "tools" / "build_wheel.py"))["build"]


def commands(title: str) -> list[str]:
    """The command lines of a section of the page."""
    found = re.search(rf"^## {title}$(.+?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {title!r}"
    return re.findall(r"^\$ (.+)$", found[1], re.MULTILINE)


def name_of(requirement: str) -> str:
    return re.split("[<>=; ]", requirement, maxsplit=1)[0]


class Machine:
    """A folder with a home and an environment of its own; pip, pipx and uv are on its path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        venv.create(folder / "venv", with_pip=True)
        self.run("pip install --quiet pipx uv")

    def run(self, command: str, folder: Path | None = None) -> str:
        path = f"{self._folder}/venv/bin:{self._folder}/.local/bin:{os.environ['PATH']}"
        home = {"HOME": str(self._folder), "VIRTUAL_ENV": str(self._folder / "venv")}
        # Those of the machine, whose compiler is found below the home of its user.
        rust = {
            "CARGO_HOME": str(Path.home() / ".cargo"),
            "RUSTUP_HOME": str(Path.home() / ".rustup"),
        }
        own = ("PYTHON", "PYTEST", "TORVYN_", "XDG_")
        kept = {key: text for key, text in os.environ.items() if not key.startswith(own)}
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder or self._folder,
            env={**rust, **kept, **home, "PATH": path, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def installed(self) -> str:
        """The version of torvyn that was installed, which is then removed."""
        version = self.run("torvyn --version").strip()
        self.run("pip uninstall --yes torvyn paho-mqtt")
        self.run("pipx uninstall torvyn || uv tool uninstall torvyn || true")
        self.run("! command -v torvyn")
        return version


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A fresh machine with the wheel in `dist`; `TORVYN_WHEEL` names one that is built already."""
    built = os.environ.get("TORVYN_WHEEL")
    folder = tmp_path_factory.mktemp("machine")
    (folder / "dist").mkdir()
    if built:
        shutil.copy(built, folder / "dist")
    else:
        MAKE_WHEEL(folder / "dist")
    return Machine(folder)


def test_the_table_has_every_extra_and_its_packages() -> None:
    rows = dict(
        re.findall(r"^\| `([\w-]+)` \| .+? \| (.+?) \| \d+ \| [\d.]+\s[MG]iB \|$", PAGE, re.M)
    )
    expected = {
        name: [name_of(package) for package in packages]
        for name, packages in measure_extras.requirements().items()
    }

    assert {name: re.findall(r"`(.+?)`", packages) for name, packages in rows.items()} == expected


def test_a_row_of_the_table_is_written_as_the_page_has_it() -> None:
    made = measure_extras.row("nats", ["nats-py>=2.16"], measure_extras.Cost(1, 3 * 2**20))

    assert made.endswith("| `nats-py` | 1 | 3\u00a0MiB |\n")
    assert measure_extras.Cost(9, 3 * 2**29).size == "1.5\u00a0GiB"


def test_a_hint_names_the_packages_of_an_extra() -> None:
    for extra, packages in measure_extras.requirements().items():
        hint = install_hint(extra)
        assert hint.startswith("pip install ")
        assert [name for name in map(name_of, packages) if name not in hint] == []


def test_a_hint_of_an_extra_that_does_not_exist_is_still_a_sentence() -> None:
    assert install_hint("gizmo") == "install the packages of `gizmo`"


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_installs_torvyn_from_an_index(page: Path) -> None:
    lines = re.findall(r"^.*pip install.*torvyn.*$", page.read_text(), re.MULTILINE)

    works = ("--find-links", "dist/torvyn-", "finds nothing")
    assert [line for line in lines if not any(word in line for word in works)] == []


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_wheel_installs_in_every_way(machine: Machine) -> None:
    ways = commands("From a wheel")

    assert len(ways) == 6
    for command in ways:
        machine.run(command)
        assert "install" not in command or machine.installed() == "torvyn 0.1.0"


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_folder_of_wheels_installs_without_an_index(machine: Machine) -> None:
    collect, *installs = commands("Without a network")
    machine.run(collect)

    for command in installs:
        machine.run(command)
        machine.run("python -c 'import paho.mqtt.client'")
        assert machine.installed() == "torvyn 0.1.0"


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo: install Rust")
def test_a_checkout_installs(machine: Machine) -> None:
    for command in commands("From a checkout"):
        machine.run(command, ROOT)

    assert machine.installed() == "torvyn 0.1.0"
