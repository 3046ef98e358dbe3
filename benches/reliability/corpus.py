"""Does any broken or hostile file harm the host?"""

from __future__ import annotations

from typing import Any

from benches.reliability.line import Line, Measured
from benches.reliability.setting import GUESTS, apart, folder, hostile_wasm

COUNT = 500
BATCH = """
import time
from torvyn.errors import TorvynError
from torvyn.sandbox import compiler

compiler.reuse_process().__enter__()
kinds, slowest = {}, 0.0
for file in sorted(Path(sys.argv[1]).iterdir()):
    started = time.monotonic()
    try:
        made = part(file, init_timeout_s=0.2, teardown_timeout_s=0.2)
        made.init("")
        made.teardown()
        kind = "loaded"
    except TorvynError as error:
        kind = error.code
    kinds[kind] = kinds.get(kind, 0) + 1
    slowest = max(slowest, time.monotonic() - started)
answer({"kinds": kinds, "slowest_s": slowest, "peak_mib": peak_bytes() / 2**20})
"""
_found: list[dict[str, Any] | None] = []


def _batches(rounds: int) -> list[dict[str, Any] | None]:
    """One batch a round, each of another seed; measured once for all lines."""
    originals = [path.read_bytes() for _, path in sorted(GUESTS.items())]
    for seed in range(len(_found), rounds):
        place = folder() / f"mutants-{seed}"
        place.mkdir()
        for number, wasm in enumerate(hostile_wasm().mutants(originals, COUNT, seed)):
            (place / f"{number:04}.wasm").write_bytes(wasm)
        _found.append(apart(BATCH, place))
    return _found[:rounds]


def _worst(rounds: int, key: str) -> Measured:
    samples = [float("inf") if batch is None else batch[key] for batch in _batches(rounds)]
    return Measured(max(samples), samples)


def harmed(rounds: int) -> Measured:
    batches = _batches(rounds)
    samples = [float(batch is None) for batch in batches]
    kinds: dict[str, int] = {}
    for batch in batches:
        for kind, count in (batch or {"kinds": {}})["kinds"].items():
            kinds[kind] = kinds.get(kind, 0) + count
    detail = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    return Measured(sum(samples), samples, detail)


FAULT = "hostile or malformed wasm"
HOW = f"{COUNT} mutants a round, loaded and started"
LINES = (
    Line("corpus-signals", FAULT, HOW, 0, "batches ended by a signal", harmed),
    Line("corpus-time", FAULT, HOW, 2, "s for the slowest", lambda n: _worst(n, "slowest_s")),
    Line("corpus-memory", FAULT, HOW, 200, "MiB at most", lambda n: _worst(n, "peak_mib")),
)
