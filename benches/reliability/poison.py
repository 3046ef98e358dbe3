"""Is compiled code that somebody else wrote ever loaded, and does a bad cache stop anybody?"""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from benches.reliability.line import Line, Measured
from benches.reliability.setting import GUESTS, apart, folder
from torvyn._native import CompiledComponent
from torvyn.sandbox.compiler_client import precompile

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


UNUSABLE = """
import logging, resource
logging.disable()
from torvyn.sandbox.compile_cache import compile_component
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
answer(True)
"""
WAYS = ("read-only", "full", "a file", "no key", "everybody writes")


def stopped(rounds: int) -> Measured:
    samples = []
    for number in range(rounds):
        for way in WAYS:
            cache = folder() / f"unusable-{number}-{way.replace(' ', '-')}"
            samples.append(float(apart(UNUSABLE, cache, way) is not True))
    return Measured(sum(samples), samples, ", ".join(WAYS))


LINES = (
    Line(
        "cache-unusable",
        "a cache that cannot be used",
        "read-only, full, a file in its place, an empty key, a folder that everybody writes",
        0,
        "starts that fail",
        stopped,
    ),
    Line(
        "cache-poison",
        "a poisoned cache entry",
        "bit flips, a cut, another component's entry, another cache's entry",
        0,
        "loaded",
        loaded,
    ),
)
