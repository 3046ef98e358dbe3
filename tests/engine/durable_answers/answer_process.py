"""A flow whose answer goes over a disk edge, in a process of its own, for tests that kill it.

    python answer_process.py FOLDER source|processor same|other [seeded] [slow-engine|slow-sink]

The engine `same` gives the same answer in every process, `other` another one in each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import ClassVar

import torvyn
from torvyn.engine.request import Request
from torvyn.engine.scripted import Scripted
from torvyn.errors import TorvynError

WORDS = 600
ANSWER = " ".join(f"w{at}" for at in range(WORDS))


class Forgetful(Scripted):
    """Every word has the number of the process."""

    is_replayable: ClassVar[bool] = False


class FileSink(torvyn.Sink):
    def __init__(self, folder: Path, pause_s: float) -> None:
        super().__init__()
        self.pause_s = pause_s
        self.file = (folder / "delivered").open("a")

    def push(self, element: torvyn.Element) -> None:
        time.sleep(self.pause_s)
        self.file.write(json.dumps([element.sequence, element.text]) + "\n")
        self.file.flush()


def make_flow(folder: Path, shape: str, engine: Scripted, seed: int | None) -> torvyn.Flow:
    flow = torvyn.Flow(checkpoint_s=0.1)
    request = Request.make("Hello", seed=seed)
    if shape == "source":
        flow.add("model", engine.source(request))
    else:
        flow.add("question", request.source())
        flow.add("model", engine.processor())
        flow.connect("question", "model")
    flow.add("out", FileSink(folder, 0.001 if "slow-sink" in sys.argv else 0.0))
    return flow.connect("model", "out", carrier="disk")


def main() -> None:
    folder, shape, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.environ["TORVYN_RUNTIME__STATE_DIR"] = str(folder / "state")
    delay_s = 0.0 if "slow-sink" in sys.argv else 0.001
    if kind == "same":
        engine = Scripted(ANSWER, delay=delay_s)
    else:
        engine = Forgetful(ANSWER.replace("w", f"p{os.getpid()}w"), delay=delay_s)
    flow = make_flow(folder, shape, engine, 7 if "seeded" in sys.argv else None)
    signal.signal(signal.SIGTERM, lambda *_: flow.drain())
    print("ready", flush=True)
    try:
        flow.run()
    except TorvynError as error:
        print(error.code, flush=True)
        sys.exit(3)
    print("done", flush=True)


if __name__ == "__main__":
    main()
