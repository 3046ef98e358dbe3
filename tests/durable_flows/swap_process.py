"""A durable flow whose components are swapped all the time, and which kills itself at one step.

    python swap_process.py FOLDER COUNT RATE STEP NUMBER [idempotent]

STEP is `init`, `snapshot`, `restore`, `process` or `teardown` of a new version, or `none`: the
process kills itself at the NUMBERth time it comes there. An idempotent sink is a table with a key.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from gateway_process import Broker, Counter, FileSink

import torvyn
from torvyn.components.builtin.sink_sqlite import SQLite
from torvyn.errors import FlowError

STEP, NUMBER = sys.argv[4], int(sys.argv[5])
_seen = 0


def come_to(step: str) -> None:
    global _seen
    if step == STEP:
        _seen += 1
        if _seen == NUMBER:
            os.kill(os.getpid(), signal.SIGKILL)


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
    flow = torvyn.Flow(checkpoint_s=0.1)
    flow.add("broker", Broker(folder, count, rate))
    flow.add("count", Version()).add("out", make_sink(folder))
    flow.connect("broker", "count").connect("count", "out", carrier="disk")
    threading.Thread(target=swap_all_the_time, args=(flow, folder), daemon=True).start()
    print("ready", flush=True)
    flow.run()
    print("done", len(flow.swaps), flush=True)


def swap_all_the_time(flow: torvyn.Flow, folder: Path) -> None:
    while flow.state in ("created", "validated", "instantiated"):
        time.sleep(0.001)
    try:
        while True:
            flow.swap("count", Version(), trial_s=0)
            flow.swap("out", make_sink(folder), trial_s=0)
    except FlowError:
        return  # The flow has ended.


if __name__ == "__main__":
    main()
