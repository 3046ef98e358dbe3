"""The state of an engine in a flow that survives its process: how much of its answer was taken.

A new run generates the answer again and emits what is new. If the engine cannot repeat it, the flow
fails with `session.generation-lost`: a text never continues with that of another generation.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from torvyn._contract.signals import End
from torvyn.engine.answer.replay import Key, Progress, Rest, generation_lost, key_of
from torvyn.engine.delta import Delta

if TYPE_CHECKING:
    from torvyn.engine.engine import Engine
    from torvyn.engine.request import Request

_FRESH: Final = "ask again with `--fresh`, which discards what the flow has stored"


class AnswerState:
    """Outputs are added where they are made, and taken, perhaps on another thread, when they leave
    the node."""

    def __init__(self) -> None:
        self._request: str | None = None
        self._progress = Progress()
        self._is_restored = False
        self._made: deque[tuple[Key, str]] = deque()
        """Outputs that were made and may not have been taken."""
        self._end: End | None = None
        self.earlier_end: End | None = None
        """How the answer ended in an earlier run."""

    def begin(self, engine: Engine, request: Request) -> Rest | None:
        """What the flow has of the answer; None if it has nothing. Raises if the rest is lost."""
        before, self._request = self._request, _fingerprint(request)
        if not self._is_restored or not self._progress.counts:
            return None
        if before != self._request:
            raise generation_lost("the flow was started again with another request", _FRESH)
        if not engine.can_repeat(request):
            raise generation_lost("it was interrupted, and the engine cannot repeat it", _FRESH)
        return Rest(Progress(self._progress.counts), _FRESH)

    def add(self, delta: Delta) -> None:
        """The next output, before it is handed over."""
        self._made.append(key_of(delta))

    def add_end(self, end: End) -> None:
        self._end = end

    def take(self, outputs: int = 1) -> None:
        """The flow has taken that many more outputs."""
        for _ in range(outputs):
            self._progress.add(*self._made.popleft())

    def save(self) -> dict[str, Any]:
        # The end is set after the last output is made, so it is read before.
        end = self._end
        state: dict[str, Any] = {"request": self._request, "said": self._progress.entries()}
        if end is not None and not self._made:
            state["end"] = asdict(end)
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        self._is_restored = True
        self._request = state["request"]
        self._progress = Progress.of(state["said"])
        if "end" in state:
            self._end = self.earlier_end = End(**state["end"])


def _fingerprint(request: Request) -> str:
    """The same for requests that ask the same."""
    fields = {**asdict(request), "id": None}
    text = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
