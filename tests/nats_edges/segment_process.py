"""One segment of a flow with `nats` edges in a process of its own, for tests that kill it.

    python segment_process.py URL FOLDER COUNT SEGMENT [REPLICA]

`read` continues after the last acknowledged number, `sum` adds numbers up per key and is saved, and
`write` appends to a file what it gets, with the epoch and the sequence number.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torvyn
from torvyn.errors import FlowError

KEYS = 5
RATE = 3000


class Numbers(torvyn.Source):
    """Its position is saved."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.next, self.count = 0, count
        self.first, self.started_s = 0, time.monotonic()

    def pull(self) -> object:
        if self.next >= self.count:
            return None
        if self.next > self.first + (time.monotonic() - self.started_s) * RATE:
            return torvyn.PENDING.after(0.001)
        self.next += 1
        number = self.next - 1
        return json.dumps({"key": f"k{number % KEYS}", "number": number})

    def snapshot(self) -> int:
        return self.next

    def restore(self, state: int) -> None:
        self.first = self.next = state


class Sum(torvyn.Processor):
    """Adds up, and names every sum differently from run to run: no output can be made twice."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = 0

    def process(self, element: torvyn.Element) -> str:
        fields = json.loads(element.text)
        self.sum += fields["number"]
        return json.dumps({**fields, "sum": self.sum, "by": os.getpid()})

    def snapshot(self) -> int:
        return self.sum

    def restore(self, state: int) -> None:
        self.sum = state


class Append(torvyn.Sink):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file.open("a")

    def push(self, element: torvyn.Element) -> None:
        context = element.context
        assert context is not None
        line = [f"{context.epoch}-{element.sequence}", json.loads(element.text)]
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def make(count: int, folder: Path, replicas: int = 1) -> torvyn.Flow:
    flow = torvyn.Flow(name="main")
    flow.add("read", Numbers(count))
    place: Any = {"replicas": replicas}
    flow.add("sum", Sum, key="key", place=place)
    flow.add("write", Append(folder / "delivered"))
    return flow.connect("read", "sum", carrier="nats").connect("sum", "write", carrier="nats")


def main() -> None:
    url, folder, count, segment, replicas, replica = sys.argv[1:]
    os.environ["TORVYN_CLUSTER__NATS"] = url
    plan = make(int(count), Path(folder), int(replicas)).plan
    assert plan.cluster is not None
    cluster = replace(plan.cluster, segments=(segment,), replica=int(replica), run="r")
    flow = torvyn.Flow.from_plan(replace(plan, cluster=cluster))
    print("ready", flush=True)
    try:
        flow.run()
    except FlowError as error:
        # It was killed between its end and the end of its process.
        if error.code != "broker.run-over":
            raise


if __name__ == "__main__":
    main()
