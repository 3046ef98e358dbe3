"""A durable flow whose components are swapped all the time, and which kills itself at one step.

    python swap_process.py FOLDER COUNT RATE STEP NUMBER [idempotent | graph]

STEP is `init`, `snapshot`, `restore`, `process` or `teardown` of a new version, `restarted`, or
`none`: the process kills itself at the NUMBERth time it comes there. An idempotent sink is a table
with a key. With `graph` the flow restarts with another graph, and a new version of the component.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gateway_process import Broker, Counter, FileSink
from versions import Versions

import torvyn
from torvyn import PENDING
from torvyn.components import SQLiteSink as SQLite
from torvyn.errors import FlowError

STEP, NUMBER = sys.argv[4], int(sys.argv[5])
_seen = 0


def come_to(step: str) -> None:
    global _seen
    if step == STEP:
        _seen += 1
        if _seen == NUMBER:
            os.kill(os.getpid(), signal.SIGKILL)


class SlowingBroker(Broker):
    """Ends later if the process is to kill itself first."""

    due_s = 0.0

    def init(self, config: str) -> None:
        """The broker knows what the version before has acknowledged."""
        super().__init__(self.file.parent, self.count, self.rate)

    def pull(self) -> object:
        if STEP == "none" or self.next < self.count * 2 // 3:
            return super().pull()
        if time.monotonic() < self.due_s:
            return PENDING.after(0.001)
        self.due_s = time.monotonic() + 0.05
        return super().pull()


class Version(Counter):
    """A counter that may be killed between any two steps of a swap."""

    is_new = True

    def init(self, config: str) -> None:
        come_to("init")

    def process(self, element: torvyn.Element) -> str:
        if self.is_new:
            self.is_new = False
            come_to("process")
        return super().process(element)

    def snapshot(self) -> dict[str, int]:
        come_to("snapshot")
        return super().snapshot()

    def restore(self, state: dict[str, int]) -> None:
        super().restore(state)
        come_to("restore")

    def teardown(self) -> None:
        come_to("teardown")


def make_sink(folder: Path) -> torvyn.Sink:
    if "idempotent" not in sys.argv:
        return FileSink(folder)
    path = str(folder / "delivered.db")
    return SQLite({"path": path, "columns": ["seq", "seen"], "key": "seq"})


def main() -> None:
    folder, count, rate = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    os.environ["TORVYN_RUNTIME__STATE_DIR"] = str(folder / "state")
    if "graph" in sys.argv:
        restart_all_the_time(lambda more: make_flow(folder, count, rate, has_extra=more))
        return
    flow = make_flow(folder, count, rate)
    threading.Thread(target=swap_all_the_time, args=(flow, folder), daemon=True).start()
    print("ready", flush=True)
    flow.run()
    print("done", len(flow.swaps), flush=True)


class Extra(torvyn.Processor):
    """Comes and goes."""

    def process(self, element: torvyn.Element) -> torvyn.Element:
        return element


def make_flow(folder: Path, count: int, rate: float, *, has_extra: bool = False) -> torvyn.Flow:
    flow = torvyn.Flow(checkpoint_s=0.1).add("broker", SlowingBroker(folder, count, rate))
    flow.add("count", Version()).add("out", make_sink(folder))
    if has_extra:
        flow.add("extra", Extra()).connect("broker", "extra").connect("extra", "count")
    else:
        flow.connect("broker", "count")
    return flow.connect("count", "out", carrier="disk")


def restart_all_the_time(make: Callable[[bool], torvyn.Flow]) -> None:
    versions = Versions(make(False).plan).start()
    graphs = itertools.cycle((True, False))

    def change() -> None:
        versions.reload(make(next(graphs)).plan)
        come_to("restarted")
        time.sleep(0.1)  # A restart takes longer than most of the elements in between.

    threading.Thread(target=repeat, args=(versions.flow, change), daemon=True).start()
    versions.wait()


def wait_for(flow: torvyn.Flow) -> None:
    while flow.state in ("created", "validated", "instantiated"):
        time.sleep(0.001)


def swap_all_the_time(flow: torvyn.Flow, folder: Path) -> None:
    def change() -> None:
        flow.swap("count", Version(), trial_s=0)
        flow.swap("out", make_sink(folder), trial_s=0)

    repeat(flow, change)


def repeat(flow: torvyn.Flow, change: Callable[[], None]) -> None:
    """Until the flow has ended."""
    wait_for(flow)
    while True:
        try:
            change()
        except FlowError as error:
            if error.code != "swap.busy":
                return


if __name__ == "__main__":
    main()
