"""Is compiled code that somebody else wrote ever loaded?"""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from benches.reliability.line import Line, Measured
from benches.reliability.setting import GUESTS, folder
from torvyn._native import CompiledComponent
from torvyn.sandbox.compiler import precompile

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


def _flipped(seed: int) -> Poison:
    def poison(entry: Path, _: Path) -> None:
        code = bytearray(entry.read_bytes())
        code[random.Random(seed).randrange(len(code))] ^= 1 << seed % 8
        entry.write_bytes(code)

    return poison


def _cut(entry: Path, _: Path) -> None:
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])


def _swapped(entry: Path, cache: Path) -> None:
    shutil.copy(_compiled(cache, "sink"), entry)


def _foreign(entry: Path, cache: Path) -> None:
    shutil.copy(_compiled(cache.with_name(cache.name + "-theirs"), "filter"), entry)


def loaded(rounds: int) -> Measured:
    samples = []
    poisons = [*map(_flipped, range(FLIPS)), _cut, _swapped, _foreign]
    for number in range(rounds):
        hits = 0
        for at, poison in enumerate(poisons):
            cache = folder() / f"poison-{number}-{at}"
            poison(_compiled(cache, "filter"), cache)
            loaded = CompiledComponent.load(GUESTS["filter"].read_bytes(), cache)
            hits += loaded is not None
        samples.append(float(hits))
    return Measured(sum(samples), samples, f"{rounds * len(poisons)} poisoned entries")


LINES = (
    Line(
        "cache-poison",
        "a poisoned cache entry",
        "bit flips, a cut, another component's entry, another cache's entry",
        0,
        "loaded",
        loaded,
    ),
)
