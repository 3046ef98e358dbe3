"""A build without a part says so in one sentence, from every command that needs the part."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torvyn import _native
from torvyn._io.native_parts import PARTS

ROOT = Path(__file__).parents[2]
PARTS_RS = ROOT / "crates/torvyn-python/src/parts.rs"
EXAMPLES = ROOT / "examples"
DURABLE = """
[torvyn]
name = "durable"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.a]
component = "lines"
config = "empty.txt"
[flow.main.nodes.b]
component = "null"
[[flow.main.edges]]
from = "a"
to = "b"
carrier = "disk"
"""
CORE = """
import sys
from torvyn import _native
for name in {classes}:
    if name in vars(_native):
        delattr(_native, name)
_native.PARTS = []
from torvyn._cli import main
sys.argv = ["torvyn", *{arguments}]
main()
"""
"""The command in a build of the core: the native module answers for what it lacks."""


def classes_of_parts() -> dict[str, list[str]]:
    """The classes of each part, as the native module has them."""
    rows = re.findall(r'\("(\w+)", &\[(.*?)\]\)', PARTS_RS.read_text(), re.DOTALL)
    return {part: re.findall(r'"(\w+)"', classes) for part, classes in rows}


def core(*arguments: str, folder: Path) -> tuple[int, str]:
    classes = [name for names in classes_of_parts().values() for name in names]
    code = CORE.format(classes=classes, arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("part", "example", "arguments"),
    [
        ("nats", "cluster-pipeline", ["run", "flow.main"]),
        ("nats", "cluster-pipeline", ["check"]),
        ("sandbox", "token-streaming-c", ["build"]),
        ("sandbox", "token-streaming-c", ["check"]),
        ("sandbox", "token-streaming-c", ["run", "flow.main"]),
        ("sandbox", "token-streaming-c", ["inspect", "Torvyn.toml"]),
        ("network", "guarded-chat", ["serve", "--check"]),
        ("network", "guarded-chat", ["serve", "--port", "0"]),
    ],
)
def test_a_command_that_needs_a_missing_part_names_it_and_the_command_that_builds_it(
    part: str, example: str, arguments: list[str]
) -> None:
    code, output = core(*arguments, folder=EXAMPLES / example)
    sentence = f"error[native.part-missing]: torvyn was built without its part `{part}`"
    assert code == 3, output
    assert output.startswith(sentence), output
    assert "run `make build`" in output
    assert len(output.splitlines()) == 3


@pytest.mark.parametrize("command", ["run", "check", "link", "trace"])
def test_a_durable_edge_needs_the_disk(command: str, tmp_path: Path) -> None:
    (tmp_path / "Torvyn.toml").write_text(DURABLE)
    (tmp_path / "empty.txt").touch()
    code, output = core(command, folder=tmp_path)
    assert code == 3, output
    assert output.startswith("error[native.part-missing]: torvyn was built without its part `disk`")


def test_the_core_runs_the_token_streaming_flow() -> None:
    code, output = core("run", "flow.main", folder=EXAMPLES / "token-streaming")
    assert code == 0, output
    assert "[output-sink] sentence 2: Torvyn handles streaming tokens." in output


def test_the_version_lists_what_is_built_in(tmp_path: Path) -> None:
    code, output = core("--version", "-v", folder=tmp_path)
    assert code == 0
    assert [line.split()[:2] for line in output.splitlines()[1:]] == [[p, "no"] for p in PARTS]


def test_doctor_lists_what_is_not_built(tmp_path: Path) -> None:
    code, output = core("doctor", folder=tmp_path)
    assert code == 0, output
    assert "core; not built: sandbox, network, disk, nats, cross" in output


def test_every_part_of_the_native_module_is_described() -> None:
    assert set(_native.PARTS) | set(classes_of_parts()) <= set(PARTS)


def test_every_class_of_a_part_that_is_built_in_exists() -> None:
    names = [n for part in _native.PARTS for n in classes_of_parts().get(part, ())]
    assert [name for name in names if not hasattr(_native, name)] == []


@pytest.fixture(scope="module")
def core_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and the native core, as `make demo` builds it."""
    build = ["cargo", "build", "--release", "-p", "torvyn-python", "--no-default-features"]
    command = [*build, "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    made = [name for each in messages for name in each.get("filenames", ()) if "_native" in name]
    folder = tmp_path_factory.mktemp("core")
    skip = shutil.ignore_patterns("_native*.so", "__pycache__")
    shutil.copytree(ROOT / "python" / "torvyn", folder / "torvyn", ignore=skip)
    shutil.copy(made[-1], folder / "torvyn" / "_native.abi3.so")
    return folder


@pytest.mark.promise("edge.single-binary")
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo: install Rust")
def test_the_core_is_small_and_answers_as_these_tests_assume(core_package: Path) -> None:
    code = "import json, torvyn._native as n; print(json.dumps([n.PARTS, dir(n)]))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=core_package, capture_output=True, text=True, check=True)
    parts, names = json.loads(done.stdout)

    assert parts == []
    assert not {name for names in classes_of_parts().values() for name in names} & set(names)
    assert (core_package / "torvyn" / "_native.abi3.so").stat().st_size < 8e6


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _native.nothing  # noqa: B018


def crates_of(*features: str) -> dict[str, set[str]]:
    """The libraries that a build compiles: of each its features, in all ways it is compiled."""
    wanted = ["--no-default-features", *(["--features", ",".join(features)] if features else [])]
    form = ["--edges", "normal,build", "--prefix", "none", "--format", "{p} [{f}]"]
    command = ["cargo", "tree", "--locked", "--package", "torvyn-python", *wanted, *form]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        crate, _, features_of = line.removesuffix(" (*)").rpartition(" [")
        found.setdefault(crate, set()).add(features_of)
    return found


def test_a_larger_build_reuses_the_libraries_that_the_core_compiled() -> None:
    core, whole = crates_of(), crates_of(*PARTS)
    # They are small; the reader of TOML needs the first two, and `bytes` the third.
    other = {"hashbrown", "indexmap", "serde", "torvyn-python", "torvyn-tools"}

    again = {crate.split()[0] for crate, features in core.items() if not features <= whole[crate]}

    assert again <= other
