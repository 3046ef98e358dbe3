"""A component that takes for ever to compile is stopped in its child; nobody else notices."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from faulty import Apart
from hostile_wasm import giant_function, nested_components

from torvyn._sandbox.compiler import compile_component
from torvyn.errors import LinkError

MEMORY_BOMB = giant_function(variables=50_000, loops=1_000, uses=200_000)
TIME_BOMB = giant_function(variables=200, loops=3_000, uses=200)


def refused(folder: Path, wasm: bytes) -> str:
    file = folder / "bomb.wasm"
    file.write_bytes(wasm)
    with pytest.raises(LinkError) as caught:
        compile_component(file, "bomb", folder / "own")
    return caught.value.message


REFUSED = """
import resource
from torvyn._sandbox.compiler import compile_component
try:
    compile_component(Path(sys.argv[1]), "bomb")
except torvyn.errors.LinkError as error:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer([error.message, used.ru_maxrss << 10])
"""


def test_a_giant_function_is_stopped_at_a_limit_of_its_size(apart: Apart, tmp_path: Path) -> None:
    assert 1_000_000 < len(MEMORY_BOMB) < 2_000_000
    allowed = (128 << 20) + 64 * len(MEMORY_BOMB)
    (tmp_path / "bomb.wasm").write_bytes(MEMORY_BOMB)

    message, peak_bytes = apart(REFUSED, tmp_path / "bomb.wasm")

    assert f"compiling it takes more than {allowed >> 20} MiB of memory" in message
    assert peak_bytes < allowed + (30 << 20)


def test_a_small_one_that_takes_long_is_stopped_too(tmp_path: Path) -> None:
    assert len(TIME_BOMB) < 64 << 10

    # On a busy machine the limit of waiting time comes first.
    reasons = ("compiling it takes more than 2 s of processor time", "it takes more than 8 s")
    message = refused(tmp_path, TIME_BOMB)
    assert any(reason in message for reason in reasons), message


def test_the_smallest_bomb_is_compiled_in_the_child_as_well(apart: Apart, tmp_path: Path) -> None:
    (tmp_path / "bomb.wasm").write_bytes(giant_function(variables=100, loops=1_050, uses=100))

    message, child_bytes = apart(REFUSED, tmp_path / "bomb.wasm")

    reasons = ("exports none of Torvyn's roles", "takes more than 2 s of processor time")
    assert any(reason in message for reason in reasons)
    assert child_bytes > 0


@pytest.mark.parametrize("levels", [10, 24, 40, 61])
def test_nested_components_are_counted_before_any_is_made(
    apart: Apart, tmp_path: Path, levels: int
) -> None:
    bomb = nested_components(levels)
    assert len(bomb) < 2_000
    (tmp_path / "bomb.wasm").write_bytes(bomb)

    message, child_bytes = apart(REFUSED, tmp_path / "bomb.wasm")

    assert "it creates more than 1000 component instances when it starts" in message
    assert child_bytes < 40 << 20


@pytest.mark.parametrize(
    ("wasm", "words"),
    [
        (nested_components(64), "its components are nested more than 64 deep"),
        (nested_components(3, with_memory=True), "it creates more than 4 memories when it starts"),
    ],
    ids=["depth", "memories"],
)
def test_each_number_has_its_limit(tmp_path: Path, wasm: bytes, words: str) -> None:
    assert words in refused(tmp_path, wasm)


def test_nested_components_within_the_limits_are_compiled(tmp_path: Path) -> None:
    assert "exports none of Torvyn's roles" in refused(tmp_path, nested_components(8))


MANIFEST = """
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.bomb]
component = "bomb.wasm"
"""


@pytest.mark.parametrize("command", ["inspect", "check", "run"])
def test_no_command_dies_of_a_nested_component(tmp_path: Path, command: str) -> None:
    (tmp_path / "bomb.wasm").write_bytes(nested_components(24))
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    target = ["bomb.wasm"] if command == "inspect" else []

    done = subprocess.run(
        [sys.executable, "-m", "torvyn", command, *target],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2, done.stderr
    assert "error[sandbox.too-complex]: component `bomb`: it is too complex" in done.stderr


def test_the_parent_goes_on_meanwhile(tmp_path: Path) -> None:
    compiling_thread = threading.Thread(target=refused, args=(tmp_path, TIME_BOMB))
    compiling_thread.start()
    gaps = []
    last = time.monotonic()
    while compiling_thread.is_alive():
        compiling_thread.join(0.005)
        now = time.monotonic()
        gaps.append(now - last)
        last = now

    assert max(gaps) < 10 * 0.05
