"""Numbers at a fixed rate, counted per key by two replicas, and written down with their ids.

The components are files of a project, because a cluster starts them in processes of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEYS: Final = 8
NODES: Final = ("numbers", "counts", "delivered")

_MANIFEST: Final = """\
[torvyn]
name = "kills"
version = "0.1.0"
contract_version = "0.1.0"

[[component]]
name = "numbers"
path = "numbers"

[[component]]
name = "counts"
path = "counts"

[[component]]
name = "delivered"
path = "delivered"

[flow.main.nodes.numbers]
component = "numbers"
config = {{ count = {count}, rate = {rate} }}
place = {{ cpus = 0, resources = {{ head = 1 }} }}

[flow.main.nodes.counts]
component = "counts"
key = "key"
place = {{ replicas = 2, cpus = 0, resources = {{ worker = 1 }} }}

[flow.main.nodes.delivered]
component = "delivered"
place = {{ cpus = 0, resources = {{ head = 1 }} }}

[[flow.main.edges]]
from = "numbers"
to = "counts"
carrier = "nats"

[[flow.main.edges]]
from = "counts"
to = "delivered"
carrier = "nats"
"""
_NUMBERS: Final = """\
import json
import os
import time

import torvyn


class Numbers(torvyn.Source):
    def init(self, config):
        self.count, self.rate = config["count"], config["rate"]
        self.sent, self.begin_s, self.first = 0, time.monotonic(), 0
        with open("processes", "a") as file:
            file.write(f"numbers {os.getpid()}\\n")

    def pull(self):
        if self.sent == self.count:
            return None
        late_s = time.monotonic() - self.begin_s - (self.sent - self.first) / self.rate
        if late_s < 0:
            return torvyn.PENDING.after(-late_s)
        self.sent += 1
        return json.dumps({"key": f"k{self.sent % %KEYS%}", "value": self.sent})

    def snapshot(self):
        return self.sent

    def restore(self, state):
        self.sent = self.first = state
"""
_COUNTS: Final = """\
import json
import os
import time

import torvyn


class Counts(torvyn.Processor):
    def init(self, config):
        self.number = self.total = 0
        with open("processes", "a") as file:
            file.write(f"counts {os.getpid()} {time.monotonic():.4f}\\n")

    def process(self, element):
        value = json.loads(element.text)
        self.number += 1
        self.total += value["value"]
        return f"{value['key']} {self.number} {self.total}"

    def snapshot(self):
        return [self.number, self.total]

    def restore(self, state):
        self.number, self.total = state
"""
_DELIVERED: Final = """\
import os
import time

import torvyn


class Delivered(torvyn.Sink):
    def init(self, config):
        self.file = os.open("deliveries", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open("processes", "a") as file:
            file.write(f"delivered {os.getpid()}\\n")

    def push(self, element):
        id = f"{element.context.epoch}:{element.sequence}"
        os.write(self.file, f"{time.monotonic():.4f} {id} {element.text}\\n".encode())
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    at_s: float
    """On the clock of all processes of this machine."""
    id: str
    key: str
    text: str


def write_project(folder: Path, count: int, rate: int) -> None:
    (folder / "Torvyn.toml").write_text(_MANIFEST.format(count=count, rate=rate))
    for name, code in zip(NODES, (_NUMBERS, _COUNTS, _DELIVERED), strict=True):
        (folder / name).mkdir()
        text = textwrap.dedent(code).replace("%KEYS%", str(KEYS))
        (folder / name / "component.py").write_text(text)


def expected(count: int) -> set[str]:
    """The outputs of one process."""
    numbers, totals = [0] * KEYS, [0] * KEYS
    texts = set()
    for value in range(1, count + 1):
        key = value % KEYS
        numbers[key] += 1
        totals[key] += value
        texts.add(f"k{key} {numbers[key]} {totals[key]}")
    return texts


def deliveries(folder: Path) -> list[Delivery]:
    """What the sink has written so far, without a last line that is not complete."""
    path = folder / "deliveries"
    if not path.exists():
        return []
    return [_parse(line) for line in path.read_text().splitlines(True) if line.endswith("\n")]


def _parse(line: str) -> Delivery:
    at, id, text = line.rstrip("\n").split(" ", 2)
    return Delivery(float(at), id, text.partition(" ")[0], text)


def processes(folder: Path, node: str) -> Iterator[int]:
    """The processes that have initialized the node, oldest first."""
    for line in (folder / "processes").read_text().splitlines():
        name, pid, *_ = line.split()
        if name == node:
            yield int(pid)
