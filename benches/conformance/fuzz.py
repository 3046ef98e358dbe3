"""Mutation fuzzing: the server gets broken requests, and must go on answering good ones.

It may answer a mutant or close its connection. It may not crash, report a failure of its own
(status 500), log a traceback or a panic, or keep memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benches.conformance.fuzz_seeds import HOST, Seed, seeds
from benches.conformance.suite import CaseResult, SuiteResult
from benches.server_process import ServerProcess

AT_ONCE: Final = 16
WAIT_S: Final = 0.05
"""How long the reaction to a mutant is waited for."""
GOOD_EVERY: Final = 100
GOOD_S: Final = 10.0
MORE_MIB: Final = 32
TRACES: Final = (b"Traceback", b"panicked at", b"internal error")
FAILED: Final = (b"HTTP/1.1 500", b"HTTP/1.0 500")
PIECES: Final = (
    b"\x00", b"\xff", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"\t", b":", b"%00", b"../", b"0", b"-1",
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"ffffffffffffffff", b"9" * 40, b"\xc3\x28",
    b"A" * 9000,
)  # fmt: skip


def mutant(rng: random.Random, seed: Seed, others: list[Seed]) -> bytes:
    data = bytearray(seed.changed)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        rng.choice(CHANGES)(rng, data, others)
    return seed.before + bytes(data)


Change = Callable[[random.Random, bytearray, list[Seed]], None]


def _flip(rng: random.Random, data: bytearray, _: list[Seed]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _replace(rng: random.Random, data: bytearray, _: list[Seed]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _insert(rng: random.Random, data: bytearray, _: list[Seed]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(PIECES)


def _delete(rng: random.Random, data: bytearray, _: list[Seed]) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice((1, 2, 4, 16))]


def _repeat(rng: random.Random, data: bytearray, _: list[Seed]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = bytes(data[at : at + rng.choice((1, 9, 64))]) * rng.choice((1, 2, 50))


def _cut(rng: random.Random, data: bytearray, _: list[Seed]) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _splice(rng: random.Random, data: bytearray, others: list[Seed]) -> None:
    other = rng.choice(others).changed
    data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other) + 1) :]


CHANGES: Final[tuple[Change, ...]] = (_flip, _replace, _insert, _delete, _repeat, _cut, _splice)


class Fuzzer:
    def __init__(self, server: ServerProcess, log: Path, seed: int) -> None:
        self._server, self._log = server, log
        self._rng = random.Random(seed)
        self._seeds = seeds()
        self.sent: Counter[str] = Counter()
        self.problems: list[str] = []

    async def run(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        await self._good()
        before_bytes = self._server.resident_bytes()
        while time.monotonic() < end_s and not self.problems:
            await asyncio.gather(*(self._round() for _ in range(AT_ONCE)))
            await self._good()
        grown = (self._server.resident_bytes() - before_bytes) / 2**20
        if grown > MORE_MIB:
            self.problems.append(f"it holds {grown:.0f} MiB more than before")
        logged = self._log.read_bytes()
        for word in TRACES:
            if (at := logged.find(word)) >= 0:
                self.problems.append(
                    f"its log has {logged[at : at + 2000].decode(errors='replace')}"
                )

    async def _round(self) -> None:
        for _ in range(GOOD_EVERY // AT_ONCE):
            seed = self._rng.choice(self._seeds)
            data = mutant(self._rng, seed, self._seeds)
            self.sent[seed.kind] += 1
            answer = await self._reaction(data)
            if answer.startswith(FAILED):
                self.problems.append(f"status 500 for {data[:400]!r}")

    async def _reaction(self, data: bytes) -> bytes:
        """What it answers within a moment; nothing if it closes the connection."""
        answer = b""
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
            with contextlib.suppress(OSError, TimeoutError):
                writer.write(data)
                async with asyncio.timeout(WAIT_S):
                    answer = await reader.read(4096)
            writer.close()
        return answer

    async def _good(self) -> None:
        try:
            async with asyncio.timeout(GOOD_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
                writer.write(b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
                answer = await reader.read()
                writer.close()
        except (OSError, TimeoutError) as error:
            self.problems.append(f"a good request failed: {type(error).__name__} {error}")
            return
        if not answer.startswith(b"HTTP/1.1 200"):
            self.problems.append(f"a good request got {answer[:80]!r}")


def run(server: ServerProcess, log: Path, seconds: float, seed: int) -> SuiteResult:
    fuzzer = Fuzzer(server, log, seed)
    asyncio.run(fuzzer.run(seconds))
    reason = "; ".join(fuzzer.problems)
    outcome = "failed" if reason else "passed"
    cases = [
        CaseResult(f"{count:,} mutants of {kind}", outcome, reason)
        for kind, count in sorted(fuzzer.sent.items())
    ]
    return SuiteResult(f"mutants, {seconds:g} s", cases)
