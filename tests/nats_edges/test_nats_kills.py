"""kill -9 of segments and of the broker at random moments: the output is that of one process."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scale import sample

from nats_server import NatsServer

PROCESS = Path(__file__).with_name("segment_process.py")
COUNT = sample(3000, full=8000)
KILLS = sample(2, full=6)


class Segments:
    """The processes of a flow, each started again when it was killed."""

    def __init__(self, url: str, folder: Path, replicas: int = 1) -> None:
        self._arguments = (url, str(folder), str(COUNT))
        self._replicas = replicas
        places = [("read", 0), *(("sum", at) for at in range(replicas)), ("write", 0)]
        self.running = {place: self._start(place) for place in places}

    def _start(self, place: tuple[str, int]) -> subprocess.Popen[str]:
        segment, replica = place
        numbers = (segment, str(self._replicas), str(replica))
        command = [sys.executable, str(PROCESS), *self._arguments, *numbers]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def kill(self, place: tuple[str, int]) -> bool:
        process = self.running[place]
        if process.poll() is not None:
            return False
        process.kill()
        process.wait()
        self.running[place] = self._start(place)
        return True

    def wait(self) -> None:
        try:
            assert [process.wait(90) for process in self.running.values()] == [0] * len(
                self.running
            )
        finally:
            for process in self.running.values():
                process.kill()


def run_with_kills(server: NatsServer, folder: Path, seed: int, replicas: int = 1) -> list[Any]:
    """Kills processes and the broker in turn; returns what was delivered, without repetitions."""
    rng = random.Random(seed)
    segments = Segments(server.url, folder, replicas)
    for _ in range(KILLS):
        victim = rng.choice([*segments.running, None])
        with contextlib.suppress(subprocess.TimeoutExpired):
            segments.running["write", 0].wait(rng.uniform(0.05, 0.5))
        if victim is None:
            server.stop()
            server.start()
        else:
            segments.kill(victim)
    segments.wait()
    delivered = [json.loads(line) for line in (folder / "delivered").read_text().splitlines()]
    return list(dict(delivered).values())


def check(delivered: list[Any]) -> None:
    """Each number once, in the order of its key, with the sum that one process would give."""
    sums: dict[str, int] = {}
    numbers: dict[str, list[int]] = {}
    for fields in delivered:
        key = fields["key"]
        sums[key] = sums.get(key, 0) + fields["number"]
        assert fields["sum"] == sums[key]
        numbers.setdefault(key, []).append(fields["number"])
    assert sorted(number for each in numbers.values() for number in each) == list(range(COUNT))
    assert all(each == sorted(each) for each in numbers.values())


@pytest.mark.parametrize("seed", range(sample(1, full=3)))
def test_the_output_is_that_of_one_process(server: NatsServer, tmp_path: Path, seed: int) -> None:
    check(run_with_kills(server, tmp_path, seed))


@pytest.mark.parametrize("seed", range(sample(1, full=2)))
def test_replicas_share_the_keys_and_lose_nothing(
    server: NatsServer, tmp_path: Path, seed: int
) -> None:
    check(run_with_kills(server, tmp_path, seed, replicas=2))
