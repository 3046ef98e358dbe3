"""A flow whose sink refuses each third element, in a process that may be killed at a step.

    python refusing_process.py FOLDER COUNT STEP [accept]

A step is the moment before or after a change of one of the two stores. `accept`: the sink takes
everything, and what was set aside is put back first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_process import Broker

import torvyn
from torvyn._durable.dead_letters import FILE, DeadLetterStore
from torvyn._durable.disk.store import DurableStore


class Refusing(torvyn.Sink):
    """Appends to a file, and syncs it, before it accepts an element."""

    def __init__(self, path: Path, refuses: bool) -> None:
        super().__init__()
        self.path, self.refuses = path, refuses

    def push(self, element: torvyn.Element) -> None:
        if self.refuses and element.json()["seq"] % 3 == 0:
            raise torvyn.InvalidInput("each third is refused")
        with self.path.open("a") as file:
            file.write(f"{element.text}\n")
            file.flush()
            os.fsync(file.fileno())


class Steps:
    def __init__(self, last: int) -> None:
        self.left = last

    def watch(self, owner: type, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def stepped(*arguments: Any, **options: Any) -> Any:
            self.step()
            result = call(*arguments, **options)
            self.step()
            return result

        setattr(owner, name, stepped)

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(9)


def main(folder: Path, count: int, step: int, mode: str = "") -> None:
    accepts = mode == "accept"
    letters = DeadLetterStore(folder / "state" / "main" / FILE)
    if accepts:
        letters.retry(letters.letters())
    letters.close()
    steps = Steps(step)
    steps.watch(DeadLetterStore, "_change")
    steps.watch(DurableStore, "commit")
    flow = torvyn.Flow(name="main")
    flow.add("in", Broker(folder, count, 100_000))
    flow.add("out", Refusing(folder / "delivered", not accepts))
    flow.connect("in", "out", carrier="disk")
    flow.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
