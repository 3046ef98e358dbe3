"""Recording: the calls of nodes that run on threads and loops of their own, for a traced flow.

The native trace sees only what runs inside a turn. Here a component's method is wrapped while its
flow runs; a source that is iterated and a stream have no such method and are not seen.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from torvyn.contract import Component, End
from torvyn.contract.roles import METHODS
from torvyn.contract.signals import Pending

RecordedCall = tuple[str, str, int, int, int, int, int]


class Recording:
    def __init__(self, limit: int) -> None:
        self.calls: list[RecordedCall] = []
        """As the native trace gives them: node, outcome, made, copied, sequence, start, nanos."""
        self.missed = 0
        self._limit = limit

    def watch(self, node: str, role: str, component: Component) -> None:
        """Records the component's calls from now on."""
        iterated = hasattr(component, "__iter__") or hasattr(component, "__aiter__")
        if hasattr(component, "stream_function") or (role == "source" and iterated):
            return
        name = METHODS[role]
        watcher = _Watcher(self, node, role)
        setattr(component, name, watcher.wrap(getattr(component, name)))

    def add(self, call: RecordedCall) -> None:
        if len(self.calls) < self._limit:
            self.calls.append(call)
        else:
            self.missed += 1


class _Watcher:
    """Times the calls of one component. A source's are numbered here, by what they gave."""

    def __init__(self, recording: Recording, node: str, role: str) -> None:
        self._recording = recording
        self._node = node
        self._role = role
        self._pulled = 0

    def wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start_ns = time.monotonic_ns()
            try:
                result = method(*arguments)
            except BaseException:
                self._note(start_ns, arguments, "failed", None)
                raise
            if inspect.isawaitable(result):
                return self._awaited(start_ns, arguments, result)
            if not inspect.isasyncgen(result):
                self._note(start_ns, arguments, self._outcome(result), result)
            return result

        return call

    async def _awaited(self, start_ns: int, arguments: tuple[Any, ...], answer: Any) -> Any:
        try:
            result = await answer
        except BaseException:
            self._note(start_ns, arguments, "failed", None)
            raise
        self._note(start_ns, arguments, self._outcome(result), result)
        return result

    def _outcome(self, result: Any) -> str:
        if self._role == "filter":
            return {True: "passed", False: "dropped"}.get(result, "done")
        return {"source": "pulled", "router": "routed"}.get(self._role, "done")

    def _note(self, start_ns: int, arguments: tuple[Any, ...], outcome: str, result: Any) -> None:
        nanos = time.monotonic_ns() - start_ns
        made = int(self._role == "aggregator" and result is not None)
        sequence = arguments[0].sequence if arguments else self._pulled
        if not arguments and result is not None and not isinstance(result, (Pending, End)):
            self._pulled += 1
        self._recording.add((self._node, outcome, made, 0, sequence, start_ns, nanos))
