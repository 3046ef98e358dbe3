"""Keyed windows behind a disk edge, in a process of its own, for tests that kill it.

    python window_process.py FOLDER COUNT

The source continues at the position of the last checkpoint, and ends after COUNT readings.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torvyn

SENSORS = "abc"


def reading(number: int) -> dict[str, object]:
    return {"sensor": SENSORS[number % 3], "at": 1_700_000_000 + number, "v": number % 7}


class Recording(torvyn.Source):
    """A source with a position, like a file: the position is saved with the windows."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.next, self.count = 0, count

    def pull(self) -> str | None:
        if self.next == self.count:
            return None
        self.next += 1
        return json.dumps(reading(self.next - 1))

    def snapshot(self) -> int:
        return self.next

    def restore(self, state: int) -> None:
        self.next = state


class FileSink(torvyn.Sink):
    run = "thread"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.file = (folder / "windows").open("a")

    def push(self, element: torvyn.Element) -> None:
        self.file.write(element.text + "\n")
        self.file.flush()
        print("window", flush=True)


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    os.environ["TORVYN_RUNTIME__STATE_DIR"] = str(folder / "state")
    compute = {"total": "sum(v)", "low": "min(v)", "high": "max(v)"}
    config = {"every": "100s", "time": "at", "lateness": "20s", "compute": compute}
    flow = torvyn.Flow(checkpoint_s=0.02).add("readings", Recording(count))
    flow.add("windows", "window", key="sensor", config=config).add("out", FileSink(folder))
    flow.connect("readings", "windows").connect("windows", "out", carrier="disk")
    flow.run()
    print("done", flush=True)


if __name__ == "__main__":
    main()
