"""Is poisoned compiled code ever loaded, and does an unusable cache prevent a start?"""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import GUESTS, folder, run_in_process
from torvyn._native import CompiledComponent
from torvyn._sandbox.compiler import precompile

FLIPS = 50
Poison = Callable[[Path, Path], None]


@functools.cache
def _code(guest: str) -> bytes:
    return precompile(GUESTS[guest].read_bytes(), False)


def _compiled(cache: Path, guest: str) -> Path:
    before = set(cache.iterdir()) if cache.exists() else set()
    wasm = GUESTS[guest].read_bytes()
    CompiledComponent.remember(wasm, _code(guest), cache, False)
    new = set(cache.iterdir()) - before - {cache / "key"}
    return new.pop()


def _flip_bit(seed: int) -> Poison:
    def poison(entry: Path, _: Path) -> None:
        code = bytearray(entry.read_bytes())
        code[random.Random(seed).randrange(len(code))] ^= 1 << seed % 8
        entry.write_bytes(code)

    return poison


def _truncate(entry: Path, _: Path) -> None:
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])


def _swap_component(entry: Path, cache: Path) -> None:
    shutil.copy(_compiled(cache, "sink"), entry)


def _swap_cache(entry: Path, cache: Path) -> None:
    shutil.copy(_compiled(cache.with_name(cache.name + "-theirs"), "filter"), entry)


def loaded(rounds: int) -> Measurement:
    samples = []
    poisons = [*map(_flip_bit, range(FLIPS)), _truncate, _swap_component, _swap_cache]
    for number in range(rounds):
        hits = 0
        for at, poison in enumerate(poisons):
            cache = folder() / f"poison-{number}-{at}"
            poison(_compiled(cache, "filter"), cache)
            loaded = CompiledComponent.load(GUESTS["filter"].read_bytes(), cache)
            hits += loaded is not None
        samples.append(float(hits))
    return Measurement(sum(samples), samples, f"{rounds * len(poisons)} poisoned entries")


UNUSABLE = """
import logging, resource
logging.disable()
from torvyn._sandbox.compiler import compile_component
cache, how = Path(sys.argv[1]), sys.argv[2]
if how == "read-only":
    cache = Path("/sys/torvyn") if os.geteuid() == 0 else cache
    os.geteuid() and cache.mkdir(mode=0o500)
elif how == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
elif how == "a file":
    cache.write_text("in the way")
else:
    compile_component(GUESTS["sink"], "sink", cache)
    if how == "no key":
        (cache / "key").write_bytes(b"")
    else:
        cache.chmod(0o777)
compile_component(GUESTS["filter"], "filter", cache)
report(True)
"""
DEFECTS = ("read-only", "full", "a file", "no key", "world-writable")


def failed_starts(rounds: int) -> Measurement:
    samples = []
    for number in range(rounds):
        for defect in DEFECTS:
            cache = folder() / f"unusable-{number}-{defect.replace(' ', '-')}"
            samples.append(float(run_in_process(UNUSABLE, cache, defect) is not True))
    return Measurement(sum(samples), samples, ", ".join(DEFECTS))


CASES = (
    Case(
        "cache-unusable",
        "a cache that cannot be used",
        "read-only, full, a file in its place, an empty key, a world-writable folder",
        0,
        "starts that fail",
        failed_starts,
    ),
    Case(
        "cache-poison",
        "a poisoned cache entry",
        "bit flips, a truncation, another component's entry, another cache's entry",
        0,
        "loaded",
        loaded,
    ),
)
