"""A flow in this process whose versions follow each other, as those of `torvyn run` do."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import torvyn
from torvyn._flow.reload import Reloader
from torvyn._link.plan import Plan


class Versions:
    def __init__(self, plan: Plan, *, is_fresh: bool = False) -> None:
        self.flow = torvyn.Flow.from_plan(plan)
        self.flow.is_fresh = is_fresh
        self._next = plan
        self._reloader = Reloader(self.flow, lambda: self._next)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Versions:
        self.flow.start()
        self._thread.start()
        return self

    def _run(self) -> None:
        while True:
            with suppress(Exception):  # `flow.error` has it.
                self.flow.wait()
            plan = self._reloader.take_successor()
            if plan is None:
                return
            self.flow = torvyn.Flow.from_plan(plan)
            self._reloader.follow(self.flow)
            with suppress(Exception):
                self.flow.start()

    def reload(self, plan: Plan, *, discard_state: bool = False) -> dict[str, Any]:
        """What `torvyn reload` gets as its answer when the files describe this plan."""
        self._next = plan
        return self._reloader.reload({"discard_state": discard_state})

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether the last version has ended, and no other one follows."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
