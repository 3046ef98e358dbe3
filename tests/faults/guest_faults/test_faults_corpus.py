"""Broken and hostile files: every one ends in a typed error or in a component that loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from faulty import GUESTS, Apart
from hostile_wasm import mutants

COUNT = 300
SEED = 20

BATCH = """
import time, resource
from torvyn.errors import TorvynError
from torvyn._sandbox import compiler

kinds, slowest = {}, 0.0
compiler.reuse_process().__enter__()
for file in sorted(Path(sys.argv[1]).iterdir()):
    print(file.name, file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        made = guest_class(file, file.stem, Path(sys.argv[2]))()
        made.set_limits(GuestLimits(file.stem, init_timeout_s=0.2, teardown_timeout_s=0.2))
        made.init("")
        made.teardown()
        kind = "loaded"
    except TorvynError as error:
        kind = error.code
    kinds[kind] = kinds.get(kind, 0) + 1
    slowest = max(slowest, time.monotonic() - started)
answer({"kinds": kinds, "slowest_s": slowest, "peak": peak(),
        "child": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10})
"""


def test_no_mutant_harms_the_host(apart: Apart, tmp_path: Path) -> None:
    folder = tmp_path / "mutants"
    folder.mkdir()
    originals = [path.read_bytes() for path in sorted(GUESTS.values())]
    for number, wasm in enumerate(mutants(originals, COUNT, SEED)):
        (folder / f"{number:04}.wasm").write_bytes(wasm)

    found = apart(BATCH, folder, tmp_path / "own", timeout_s=150)

    assert sum(found["kinds"].values()) == COUNT
    assert found["kinds"]["sandbox.invalid"] > COUNT / 3
    assert found["kinds"]["loaded"] > 0, "some flips hit what nobody reads"
    assert found["slowest_s"] < 10 * 2
    assert found["peak"] < 200 << 20


def test_a_mutant_never_ends_the_command_badly(tmp_path: Path) -> None:
    originals = [GUESTS["chaos"].read_bytes()]
    for number, wasm in enumerate(mutants(originals, 5, SEED)):
        file = tmp_path / f"{number}.wasm"
        file.write_bytes(wasm)
        command = [sys.executable, "-m", "torvyn", "inspect", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2), done.stderr
        assert "Traceback" not in done.stderr


def test_a_large_mutant_is_looked_at_by_a_child(apart: Apart, tmp_path: Path) -> None:
    folder = tmp_path / "mutants"
    folder.mkdir()
    padded = GUESTS["chaos"].read_bytes() + b"\0\xff\xff\x01\1x" + bytes(32765)
    for number, wasm in enumerate(mutants([padded], 10, SEED)):
        (folder / f"{number}.wasm").write_bytes(wasm)

    found = apart(BATCH, folder, tmp_path / "own")

    assert sum(found["kinds"].values()) == 10
    assert 0 < found["child"] < 200 << 20
