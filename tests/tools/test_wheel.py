"""The wheel: it installs where there is no compiler, and what it installs runs flows and guests."""

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
PATH = os.pathsep.join(folder for folder in ("/usr/bin", "/bin") if os.path.isdir(folder))
GUEST = ROOT / "tests" / "sandbox" / "guests" / "processor.wasm"
TOOLS = runpy.run_path(str(ROOT / "tools" / "build_wheel.py"))

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("cargo") is None or not Path(sys.executable).with_name("maturin").exists(),
        reason="needs cargo and maturin: make test",
    ),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built: Path = TOOLS["build"](tmp_path_factory.mktemp("wheel"))
    return built


@pytest.fixture(scope="module")
def gateway(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel, installed without a compiler on the path."""
    folder = tmp_path_factory.mktemp("gateway")
    venv.create(folder / "venv", with_pip=True)
    assert shutil.which("cargo", path=PATH) is None
    run(folder, "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    return folder


def run(gateway: Path, *command: str, cwd: Path | None = None) -> str:
    environ = {"PATH": PATH, "HOME": str(gateway), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [gateway / "venv" / "bin" / "python", "-m", *command],
        cwd=cwd or gateway,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_says_when_it_was_released(gateway: Path) -> None:
    code = "import torvyn._deploy.trust as date; print(date.released_s())"
    python = gateway / "venv" / "bin" / "python"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)

    assert int(done.stdout) == TOOLS["release_time_s"]()


def test_the_wheel_is_for_every_python_from_3_11_on(wheel: Path) -> None:
    assert re.search(r"-cp311-abi3-(many)?linux_", wheel.name)


def test_the_report_has_the_size(wheel: Path) -> None:
    assert re.search(r"whl: [\d.]+ MB, installed [\d.]+ MB, of which", TOOLS["describe"](wheel))


@pytest.mark.promise("edge.single-binary")
def test_an_example_runs_without_a_compiler(gateway: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "hello-world", tmp_path / "hello-world")

    out = run(gateway, "torvyn", "run", "--quiet", cwd=tmp_path / "hello-world")

    assert out.strip()


def test_a_guest_is_compiled_without_a_compiler_on_the_path(gateway: Path) -> None:
    assert "processor" in run(gateway, "torvyn", "inspect", str(GUEST))


@pytest.mark.promise("edge.same-component")
def test_an_artifact_has_code_for_each_architecture(gateway: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "hello-world", tmp_path / "project")
    shutil.copy(GUEST, tmp_path / "project" / "guest.wasm")
    manifest = tmp_path / "project" / "Torvyn.toml"
    guest = '[[component]]\nname = "guest"\npath = "guest.wasm"\n\n[flow.'
    manifest.write_text(manifest.read_text().replace("[flow.", guest, 1))

    targets = ("x86_64-linux", "aarch64-linux")
    options = [word for target in targets for word in ("--precompile", target)]
    run(gateway, "torvyn", "pack", *options, "--output", "out", cwd=manifest.parent)

    files = [path for path in (manifest.parent / "out").rglob("*") if path.is_file()]
    index = "".join(path.read_text("latin-1") for path in files)
    assert all(f"guest.{target}." in index for target in targets)
