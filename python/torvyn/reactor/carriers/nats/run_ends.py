"""Which writers have ended, so that a reader knows when its run is over.

A writer says once per run and partition that it has ended. The run of a reader that has a name ends
with the ends of that name; those of other runs mean nothing to it. Without a name, the n-th run of
a reader ends with the n-th end of every writer: one that comes early is kept for the next run.

A writer without a name never sends the end that a reader with one waits for: the reader keeps such
ends for a run without a name, and says whose they are.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any, Final

from torvyn.reactor.carriers.nats.batch_ids import BatchId

RUNS_KEPT: Final = 4
"""How many runs of a writer are remembered, so that an end that comes twice counts once."""
_UNNAMED: Final = "~"
"""What the id of a run begins with that has no name. No name has this character."""


def new_run() -> str:
    """The id of a run without a name."""
    return f"{_UNNAMED}{secrets.token_hex(4)}"


def has_name(run: str) -> bool:
    return not run.startswith(_UNNAMED)


class RunEnds:
    def __init__(
        self, expected: Iterable[tuple[int, int]], run: str, saved: dict[str, Any] | None = None
    ) -> None:
        """`expected`: writers and partitions; `run`: the name of the run, if it has one."""
        saved = saved or {"runs": {}, "early": {}}
        self._run = run
        self._expected = [_key(writer, partition) for writer, partition in expected]
        self._runs: dict[str, list[str]] = {key: list(runs) for key, runs in saved["runs"].items()}
        """The last runs that have ended, by writer and partition."""
        self._early: dict[str, int] = dict(saved["early"])
        """Ends that no run of the reader has used, if its runs or those of the writers have no
        names."""
        self._missing = {key for key in self._expected if not self._has_ended(key)}

    def _has_ended(self, key: str) -> bool:
        return self._run in self._runs.get(key, ()) if self._run else key in self._early

    @property
    def are_complete(self) -> bool:
        return not self._missing

    def add(self, batch: BatchId) -> bool:
        """Notes the end of a writer; False if it has come before."""
        key = _key(batch.writer, batch.partition)
        runs = self._runs.setdefault(key, [])
        if batch.generation in runs:
            return False
        runs.append(batch.generation)
        del runs[:-RUNS_KEPT]
        if not (self._run and has_name(batch.generation)):
            self._early[key] = self._early.get(key, 0) + 1
        if self._has_ended(key):
            self._missing.discard(key)
        return True

    def is_missing(self, writer: int, partition: int, run: str) -> bool:
        """Whether the reader waits for the end of that run of a writer."""
        key = _key(writer, partition)
        return key in self._missing and run not in self._runs.get(key, ())

    @property
    def unnamed_writers(self) -> set[int]:
        """The writers that have ended without a name, while their ends with one are missing."""
        keys = self._missing & self._early.keys() if self._run else set()
        return {int(key.partition(".")[0]) for key in keys}

    def use(self) -> None:
        """The run of the reader is over: the next one needs other ends."""
        if self._run:
            self._early.clear()
            return
        left = {key: self._early[key] - 1 for key in self._expected}
        self._early = {key: count for key, count in {**self._early, **left}.items() if count}

    def to_json(self) -> dict[str, Any]:
        return {"runs": self._runs, "early": self._early}


def _key(writer: int, partition: int) -> str:
    return f"{writer}.{partition}"
