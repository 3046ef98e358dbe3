"""When is a compile bomb stopped, and what does it cost the host?"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import folder, hostile_wasm, python_guest, run_in_process
from torvyn._sandbox.compiler import compile_component
from torvyn.errors import LinkError

MEMORY = {"variables": 50_000, "loops": 1_000, "uses": 200_000}
TIME = {"variables": 200, "loops": 3_000, "uses": 200}
NESTED = """
import resource
from torvyn.errors import LinkError
from torvyn._sandbox.compiler import compile_component
before = peak_bytes()
try:
    compile_component(Path(sys.argv[1]), "bomb", Path(sys.argv[2]))
except LinkError as error:
    assert error.code == "sandbox.too-complex", error
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    report((peak_bytes() - before + child) / 2**20)
"""
REJECTED = """
import resource, time
from torvyn.errors import LinkError
from torvyn._sandbox.compiler import compile_component
started = time.monotonic()
try:
    compile_component(Path(sys.argv[1]), "bomb", Path(sys.argv[2]))
except LinkError as error:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report([used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, error.message])
"""
NESTED_LEVELS = (22, 24, 40, 63)


def nested(rounds: int) -> Measurement:
    """The memory of host and child until a nested component is rejected."""
    samples = []
    for _ in range(rounds):
        for levels in NESTED_LEVELS:
            file = folder() / f"nested-{levels}.wasm"
            file.write_bytes(hostile_wasm().nested_components(levels))
            mebibytes = run_in_process(NESTED, file, folder() / "own")
            samples.append(float("inf") if mebibytes is None else mebibytes)
    return Measurement(max(samples), samples, f"{', '.join(map(str, NESTED_LEVELS))} levels")


def _bomb(shape: dict[str, int]) -> Path:
    file = folder() / f"bomb-{shape['loops']}.wasm"
    file.write_bytes(hostile_wasm().giant_function(**shape))
    return file


def child_memory(rounds: int) -> Measurement:
    results = [run_in_process(REJECTED, _bomb(MEMORY), folder() / "own") for _ in range(rounds)]
    samples = [mebibytes for mebibytes, _, _ in results]
    return Measurement(max(samples), samples, results[0][2].partition(": ")[2])


def child_time(rounds: int) -> Measurement:
    results = [run_in_process(REJECTED, _bomb(TIME), folder() / "own") for _ in range(rounds)]
    samples = [seconds for _, seconds, _ in results]
    return Measurement(max(samples), samples, results[0][2].partition(": ")[2])


def parent_pause(rounds: int) -> Measurement:
    """The longest pause of a thread of the parent."""
    samples = []
    for _ in range(rounds):
        thread = threading.Thread(target=_compile, args=(_bomb(TIME),))
        thread.start()
        last, longest = time.perf_counter(), 0.0
        while thread.is_alive():
            thread.join(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        samples.append(longest * 1e3)
    return Measurement(max(samples), samples)


def _compile(file: Path) -> None:
    try:
        compile_component(file, "bomb", folder() / "own")
    except LinkError:
        return
    raise AssertionError("the bomb was compiled")


def real_guest(rounds: int) -> Measurement:
    """Seconds to compile a Python guest within the same limits."""
    guest = python_guest()
    started = time.perf_counter()
    compile_component(guest, "loops", folder() / "fresh")
    took_s = time.perf_counter() - started
    return Measurement(took_s, [took_s], f"{guest.stat().st_size / 1e6:.1f} MB of wasm, one round")


FAULT = "a compile bomb"
CASES = (
    Case(
        "compile-bomb-memory", FAULT, "1.4 MB, one function", 250, "MiB of the child", child_memory
    ),
    Case(
        "compile-bomb-time",
        FAULT,
        "24 KB, one function",
        3,
        "s of processor time of the child",
        child_time,
    ),
    Case(
        "nested-components",
        "a component of components",
        "each level instantiates the next level twice",
        64,
        "MiB of host and child",
        nested,
    ),
    Case("compile-bomb-parent", FAULT, "measured in the parent", 50, "ms pause", parent_pause),
    Case("compile-python-guest", "none", "a real Python guest", 360, "s to compile", real_guest),
)
