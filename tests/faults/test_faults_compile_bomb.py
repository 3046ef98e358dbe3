"""A component that takes for ever to compile is stopped in its child; nobody else notices."""

from __future__ import annotations

import resource
import threading
import time
from pathlib import Path

import pytest
from faulty import Apart
from hostile_wasm import giant_function

from torvyn.errors import LinkError
from torvyn.sandbox import compiling
from torvyn.sandbox.compiling import compile_component

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
from torvyn.sandbox.compiling import compile_component
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

    assert "compiling it takes more than 2 s of processor time" in refused(tmp_path, TIME_BOMB)


def test_what_is_compiled_in_this_process_is_harmless_at_its_worst(tmp_path: Path) -> None:
    bomb = giant_function(variables=100, loops=1_050, uses=100)
    assert len(bomb) < compiling.SMALL_BYTES
    before = resource.getrusage(resource.RUSAGE_SELF)

    assert "exports no role" in refused(tmp_path, bomb)

    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 10 * 2
    assert (after.ru_maxrss - before.ru_maxrss) << 10 < 50 << 20


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
