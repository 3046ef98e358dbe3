"""A flow with a disk edge in a process of its own, for tests that kill it.

    python gateway_process.py FOLDER COUNT RATE [stateful] [live-first] [slow]

The source reads numbers from 0 on and continues after the last acknowledged one, like a broker. The
sink appends to a file before it accepts an element. With `slow`, each takes it half a millisecond,
and the file has a line `commit` wherever one begins.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torvyn
from torvyn import PENDING
from torvyn._durable.backend import LostRange, Transaction
from torvyn._durable.disk.store import DurableStore


class Broker(torvyn.Source):
    """Delivers the numbers after the last acknowledged one again, like a message broker."""

    def __init__(self, folder: Path, count: int, rate: float) -> None:
        super().__init__()
        self.file = folder / "acknowledged"
        self.next = int(self.file.read_text() or 0) if self.file.exists() else 0
        self.settled = self.next
        self.count, self.rate = count, rate
        self.started_s, self.first = time.monotonic(), self.next

    def pull(self) -> object:
        if self.next >= self.count:
            return None if self.settled >= self.count else PENDING
        due = self.first + (time.monotonic() - self.started_s) * self.rate
        if self.next > due:
            return PENDING.after(0.001)
        self.next += 1
        return json.dumps({"seq": self.next - 1})

    def acknowledge(self, count: int) -> None:
        self.settled += count
        swap = self.file.with_suffix(".new")
        swap.write_text(str(self.settled))
        os.replace(swap, self.file)
        self.wake()


class Counter(torvyn.Processor):
    """Adds how many elements it has seen, which must survive a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def process(self, element: torvyn.Element) -> str:
        self.seen += 1
        return json.dumps({**json.loads(element.text), "seen": self.seen})

    def snapshot(self) -> dict[str, int]:
        return {"seen": self.seen}

    def restore(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


class FileSink(torvyn.Sink):
    run = "thread"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.file = (folder / "delivered").open("a")

    def push(self, element: torvyn.Element) -> None:
        record = json.loads(element.text)
        if "slow" in sys.argv:
            time.sleep(0.0005)
            # The source repeats what was not acknowledged: only its number in the log is new.
            record["at"] = element.sequence
        self.write(json.dumps(record))

    def write(self, line: str) -> None:
        self.file.write(line + "\n")
        self.file.flush()


def note_commits(sink: FileSink) -> None:
    commit = DurableStore.commit

    def noted(store: DurableStore, transaction: Transaction) -> list[LostRange]:
        sink.write("commit")
        return commit(store, transaction)

    DurableStore.commit = noted  # type: ignore[method-assign]


def main() -> None:
    folder, count, rate = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    os.environ["TORVYN_RUNTIME__STATE_DIR"] = str(folder / "state")
    flow = torvyn.Flow(checkpoint_s=0.1)
    flow.add("broker", Broker(folder, count, rate))
    flow.add("count", Counter() if "stateful" in sys.argv else torvyn.processor(lambda e: e.text))
    flow.add("out", sink := FileSink(folder))
    order = "live-first" if "live-first" in sys.argv else "oldest-first"
    flow.connect("broker", "count").connect("count", "out", carrier="disk", order=order)
    if "slow" in sys.argv:
        note_commits(sink)
    print("ready", flush=True)
    flow.run()
    print("done", flush=True)


if __name__ == "__main__":
    main()
