"""Does a malformed or hostile file harm the host?"""

from __future__ import annotations

from typing import Any

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import GUESTS, folder, hostile_wasm, run_in_process

COUNT = 500
BATCH = """
import time
from torvyn.errors import TorvynError
from torvyn._sandbox import compiler

compiler.reuse_process().__enter__()
kinds, slowest = {}, 0.0
for file in sorted(Path(sys.argv[1]).iterdir()):
    started = time.monotonic()
    try:
        guest = new_guest(file, init_timeout_s=0.2, teardown_timeout_s=0.2)
        guest.init("")
        guest.teardown()
        kind = "loaded"
    except TorvynError as error:
        kind = error.code
    kinds[kind] = kinds.get(kind, 0) + 1
    slowest = max(slowest, time.monotonic() - started)
report({"kinds": kinds, "slowest_s": slowest, "peak_mib": peak_bytes() / 2**20})
"""
_results: list[dict[str, Any] | None] = []


def _batches(rounds: int) -> list[dict[str, Any] | None]:
    """One batch per round, each with its own seed; measured once for all cases."""
    originals = [path.read_bytes() for _, path in sorted(GUESTS.items())]
    for seed in range(len(_results), rounds):
        target = folder() / f"mutants-{seed}"
        target.mkdir()
        for number, wasm in enumerate(hostile_wasm().mutants(originals, COUNT, seed)):
            (target / f"{number:04}.wasm").write_bytes(wasm)
        _results.append(run_in_process(BATCH, target))
    return _results[:rounds]


def _worst(rounds: int, key: str) -> Measurement:
    samples = [float("inf") if batch is None else batch[key] for batch in _batches(rounds)]
    return Measurement(max(samples), samples)


def signals(rounds: int) -> Measurement:
    batches = _batches(rounds)
    samples = [float(batch is None) for batch in batches]
    kinds: dict[str, int] = {}
    for batch in batches:
        for kind, count in (batch or {"kinds": {}})["kinds"].items():
            kinds[kind] = kinds.get(kind, 0) + count
    detail = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    return Measurement(sum(samples), samples, detail)


FAULT = "hostile or malformed wasm"
HOW = f"{COUNT} mutants per round, loaded and started"
CASES = (
    Case("corpus-signals", FAULT, HOW, 0, "batches ended by a signal", signals),
    Case("corpus-time", FAULT, HOW, 2, "s for the slowest", lambda n: _worst(n, "slowest_s")),
    Case("corpus-memory", FAULT, HOW, 200, "MiB at most", lambda n: _worst(n, "peak_mib")),
)
