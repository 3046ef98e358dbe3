"""The gateway of `update_paths`: numbered readings, delivered with the version and the time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

READINGS_PER_S = 200
MANIFEST = """
[torvyn]
name = "gateway"
version = "{version}"
contract_version = "0.1.0"

[[component]]
name = "readings"
path = "readings"

[[component]]
name = "uplink"
path = "uplink"

[flow.main]
checkpoint = "50ms"

[flow.main.nodes.readings]
component = "readings"

[flow.main.nodes.uplink]
component = "uplink"
config = {{ path = "{output}" }}

[[flow.main.edges]]
from = "readings"
to = "uplink"
carrier = "disk"
"""
SOURCE = """
import time

import torvyn


class Readings(torvyn.Source):
    run = "thread"

    def __init__(self):
        super().__init__()
        self.next = 0

    def pull(self):
        time.sleep(1 / {rate})
        self.next += 1
        return str(self.next - 1)

    def snapshot(self):
        return str(self.next).encode()

    def restore(self, state):
        self.next = int(state)
"""
SINK = """
import time

import torvyn


class Uplink(torvyn.Sink):
    def init(self, config):
        {init}
        self.file = open(config["path"], "a", buffering=1)

    def push(self, element):
        self.file.write(f"{{element.text}} {version} {{time.monotonic()}}\\n")
"""


@dataclass(frozen=True)
class Delivery:
    number: int
    version: str
    at_s: float
    """By the clock of `time.monotonic`, which all processes share."""


def write_project(folder: Path, version: str, output: Path, init: str = "pass") -> None:
    """A version of the project: its sink differs."""
    files = {
        "Torvyn.toml": MANIFEST.format(version=version, output=output),
        "readings/component.py": SOURCE.format(rate=READINGS_PER_S),
        "uplink/component.py": SINK.format(version=version, init=init),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def deliveries(output: Path) -> list[Delivery]:
    if not output.exists():
        return []
    lines = output.read_text().splitlines(keepends=True)
    parts = [line.split() for line in lines if line.endswith("\n")]
    return [Delivery(int(number), version, float(at)) for number, version, at in parts]


def wait_for_version(output: Path, version: str) -> Delivery:
    """The first delivery of a version."""
    return wait(lambda: next((d for d in deliveries(output) if d.version == version), None))


def wait(look: Callable[[], Found | None], limit_s: float = 60.0) -> Found:
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        if (found := look()) is not None:
            return found
        time.sleep(0.005)
    raise TimeoutError("the new version did not run in time")


def longest_gap_s(found: list[Delivery], since_s: float) -> float:
    """The longest time without a delivery, from shortly before a change on."""
    times = [delivery.at_s for delivery in found if delivery.at_s >= since_s - 1.0]
    return max((after - before for before, after in pairwise(times)), default=float("inf"))


def check_account(found: list[Delivery]) -> tuple[int, int]:
    """Readings that are lost, and those that were delivered twice."""
    seen = Counter(delivery.number for delivery in found)
    lost = [number for number in range(max(seen) + 1) if number not in seen]
    return len(lost), sum(count - 1 for count in seen.values())
