"""The components of random flows. Elements are JSON objects with an `id`; what is made from several
has all of their ids."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import torvyn
from torvyn import PENDING, Element
from torvyn.components.identity import ORIGIN_SHIFT


def id_of(element: Element) -> int:
    return int(json.loads(element.text)["id"])


def ids_of(text: str) -> list[int]:
    return [found for line in text.splitlines() for found in _ids(json.loads(line))]


def _ids(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("id", "ids"):
                yield from inner if isinstance(inner, list) else [inner]
            else:
                yield from _ids(inner)


class Numbers(torvyn.Source):
    """Sends the ids from 0 on, in bursts."""

    def __init__(self, count: int, pad_bytes: int, burst: int) -> None:
        super().__init__()
        self.next, self.count, self.burst = 0, count, burst
        self.pad = "x" * pad_bytes

    def pull(self) -> Any:
        if self.next == self.count:
            return None
        number, self.next = self.next, self.next + 1
        if self.burst and self.next % self.burst == 0:
            time.sleep(0.001)
        record = {"id": number, "k": str(number % 3), "at": 1_700_000_000 + number}
        return json.dumps({**record, "pad": self.pad} if self.pad else record)


class Broker(Numbers):
    """Begins after the last acknowledged id, as a message broker does."""

    def __init__(self, file: Path, count: int, pad_bytes: int, burst: int) -> None:
        super().__init__(count, pad_bytes, burst)
        self.file = file

    def init(self, config: str) -> None:
        self.settled = self.next = int(self.file.read_text()) if self.file.exists() else 0

    def acknowledge(self, count: int) -> None:
        self.settled += count
        assert self.settled <= self.next, "more was acknowledged than was sent"
        (swap := self.file.with_suffix(".new")).write_text(str(self.settled))
        os.replace(swap, self.file)

    def pull(self) -> Any:
        # A broker has a window: it sends no more while so much is not acknowledged.
        return PENDING.after(0.001) if self.next - self.settled > 5000 else super().pull()


class Position(Numbers):
    """Continues at the position of the last checkpoint, as the source of a file does."""

    def snapshot(self) -> int:
        return self.next

    def restore(self, state: int) -> None:
        self.next = state


class Stage(torvyn.Processor):
    """Passes elements on."""

    def process(self, element: Element) -> Element:
        return element


class ThreadStage(Stage):
    run = "thread"


class AsyncStage(Stage):
    async def process(self, element: Element) -> Element:  # type: ignore[override]
        return element


class Counter(Stage):
    """Has a state, so that its segment is saved by checkpoints."""

    seen = 0

    def process(self, element: Element) -> Element:
        self.seen += 1
        return element

    def snapshot(self) -> int:
        return self.seen

    def restore(self, state: int) -> None:
        self.seen = state


class Tap(Stage):
    """Behind a disk edge: notes the positions of the elements in its log."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def init(self, config: str) -> None:
        self.lines = self.file.open("a", buffering=1)
        self.lines.write("run\n")

    def process(self, element: Element) -> Element:
        self.lines.write(f"{element.sequence % (1 << ORIGIN_SHIFT)}\n")
        return element


class Collect(torvyn.Aggregator):
    """Sends the ids of several elements together, and keeps the last one back."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.taken: list[list[int]] = []

    def ingest(self, element: Element) -> str | None:
        self.taken.append(ids_of(element.text))
        if len(self.taken) <= self.size:
            return None
        ids, self.taken = list(chain(*self.taken[:-1])), self.taken[-1:]
        return json.dumps({"ids": ids})

    def flush(self) -> list[str]:
        ids, self.taken = list(chain(*self.taken)), []
        return [json.dumps({"ids": ids})] if ids else []


class HeldCollect(Collect):
    def held_elements(self) -> int:
        return len(self.taken)


class ThreadCollect(HeldCollect):
    run = "thread"


class AsyncCollect(HeldCollect):
    async def ingest(self, element: Element) -> str | None:  # type: ignore[override]
        return Collect.ingest(self, element)


class SavedCollect(Collect):
    def snapshot(self) -> list[list[int]]:
        return self.taken

    def restore(self, state: list[list[int]]) -> None:
        self.taken = state


class IdSink(torvyn.Sink):
    """Writes the ids that it accepts to a file, one element per line."""

    def __init__(self, file: Path, pause_s: float, run: str) -> None:
        super().__init__()
        self.file, self.pause_s, self.run = file, pause_s, run

    def init(self, config: str) -> None:
        self.lines = self.file.open("a", buffering=1)

    def push(self, element: Element) -> None:
        if self.pause_s:
            time.sleep(self.pause_s)
        self.lines.write(",".join(map(str, ids_of(element.text))) + "\n")
