"""A durable flow whose components are swapped all the time, and which kills itself at one step.

    python swap_process.py FOLDER COUNT RATE STEP NUMBER [idempotent | graph]

STEP is `init`, `snapshot`, `restore`, `process` or `teardown` of a new version, `exchanged`, or
`none`: the process kills itself at the NUMBERth time it comes there. An idempotent sink is a table
with a key. With `graph` it is the graph that changes, and a component with it.
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
    parts = (SlowingBroker(folder, count, rate), make_sink(folder))
    flow = make_flow(*parts)
    is_graph = "graph" in sys.argv
    swap, arguments = (change_graphs, parts) if is_graph else (swap_all_the_time, (folder,))
    threading.Thread(target=swap, args=(flow, *arguments), daemon=True).start()
    print("ready", flush=True)
    flow.run()
    print("done", len(flow.swaps), flush=True)


class Extra(torvyn.Processor):
    """Comes and goes."""

    def process(self, element: torvyn.Element) -> torvyn.Element:
        return element


def make_flow(broker: torvyn.Source, sink: torvyn.Sink, *, has_extra: bool = False) -> torvyn.Flow:
    flow = torvyn.Flow(checkpoint_s=0.1).add("broker", broker)
    flow.add("count", Version()).add("out", sink)
    if has_extra:
        flow.add("extra", Extra()).connect("broker", "extra").connect("extra", "count")
    else:
        flow.connect("broker", "count")
    return flow.connect("count", "out", carrier="disk")


def change_graphs(flow: torvyn.Flow, broker: torvyn.Source, sink: torvyn.Sink) -> None:
    graphs = itertools.cycle((True, False))

    def change() -> None:
        plan = make_flow(broker, sink, has_extra=next(graphs)).plan
        flow.swap_graph(plan, replaced=["count"])
        come_to("exchanged")

    repeat(flow, change)


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
