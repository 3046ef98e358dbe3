"""Records the calls of nodes that run on threads and loops, for a traced flow.

The native trace sees only calls inside a turn. This one wraps the component's method. Sources that
are iterated and streams have no such method and are not recorded.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, Final

from torvyn._contract.element import Batch
from torvyn._contract.enums import CallOutcome, Role
from torvyn._contract.roles import (
    BATCH_METHODS,
    METHODS,
    Component,
    batch_method_of,
    defines_method,
)
from torvyn._contract.signals import End, Pending

RecordedCall = tuple[str, CallOutcome, int, int, int, int, int]

_OUTCOMES: Final[dict[str, CallOutcome]] = {
    Role.SOURCE: CallOutcome.PULLED,
    Role.ROUTER: CallOutcome.ROUTED,
}


class CallRecorder:
    def __init__(self, limit: int) -> None:
        self.calls: list[RecordedCall] = []
        """In the form of the native trace: node, outcome, made, copied, sequence, start, nanos."""
        self.missed = 0
        self._limit = limit

    def record(self, node: str, role: str, component: Component) -> None:
        """Records the component's calls from now on."""
        is_iterable = hasattr(component, "__iter__") or hasattr(component, "__aiter__")
        if hasattr(component, "stream_function") or (role == Role.SOURCE and is_iterable):
            return
        method = _MethodRecorder(self, node, role)
        names = [METHODS[role]] if defines_method(component, role, METHODS[role]) else []
        if batch_method_of(component, role) is not None:
            names.append(BATCH_METHODS[role])
        for name in names:
            setattr(component, name, method.wrap(getattr(component, name)))

    def add(self, call: RecordedCall) -> None:
        if len(self.calls) < self._limit:
            self.calls.append(call)
        else:
            self.missed += 1


class _MethodRecorder:
    """Times the calls of one component, and numbers those of a source by its elements."""

    def __init__(self, recorder: CallRecorder, node: str, role: str) -> None:
        self._recorder = recorder
        self._node = node
        self._role = role
        self._pulled = 0

    def wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start_ns = time.monotonic_ns()
            try:
                result = method(*arguments)
            except BaseException:
                self._note(start_ns, arguments, CallOutcome.FAILED, None)
                raise
            if inspect.isawaitable(result):
                return self._await(start_ns, arguments, result)
            if not inspect.isasyncgen(result):
                self._note(start_ns, arguments, self._outcome(result), result)
            return result

        return call

    async def _await(self, start_ns: int, arguments: tuple[Any, ...], answer: Any) -> Any:
        try:
            result = await answer
        except BaseException:
            self._note(start_ns, arguments, CallOutcome.FAILED, None)
            raise
        self._note(start_ns, arguments, self._outcome(result), result)
        return result

    def _outcome(self, result: Any) -> CallOutcome:
        if self._role == Role.FILTER:
            outcomes = {True: CallOutcome.PASSED, False: CallOutcome.DROPPED}
            is_plain = type(result) is bool
            return outcomes[result] if is_plain else CallOutcome.DONE
        return _OUTCOMES.get(self._role, CallOutcome.DONE)

    def _note(
        self, start_ns: int, arguments: tuple[Any, ...], outcome: CallOutcome, result: Any
    ) -> None:
        nanos = time.monotonic_ns() - start_ns
        if arguments and isinstance(arguments[0], Batch):
            self._note_batch(start_ns, nanos, arguments[0], outcome, result)
            return
        if self._role == Role.SOURCE:
            self._note_pull(start_ns, nanos, outcome, result)
            return
        made = int(self._role == Role.AGGREGATOR and result is not None)
        sequence = arguments[0].sequence
        self._recorder.add((self._node, outcome, made, 0, sequence, start_ns, nanos))

    def _note_pull(self, start_ns: int, nanos: int, outcome: CallOutcome, result: Any) -> None:
        """Every element of a batch gets its share of the time."""
        is_element = result is not None and not isinstance(result, (Pending, End))
        count = len(result) if isinstance(result, (list, tuple)) else int(is_element)
        share_ns = nanos // max(count, 1)
        for at in range(max(count, 1)):
            call_ns = start_ns + at * share_ns
            self._recorder.add((self._node, outcome, 0, 0, self._pulled + at, call_ns, share_ns))
        self._pulled += count

    def _note_batch(
        self, start_ns: int, nanos: int, batch: Batch, outcome: CallOutcome, result: Any
    ) -> None:
        """Every element gets its share of the time."""
        share_ns = nanos // len(batch)
        has_entries = isinstance(result, (list, tuple)) and len(result) == len(batch)
        for at, element in enumerate(batch):
            of_one = outcome
            if has_entries and self._role != Role.AGGREGATOR:
                entry = result[at]
                failed = isinstance(entry, BaseException)
                of_one = CallOutcome.FAILED if failed else self._outcome(entry)
            call_ns = start_ns + at * share_ns
            self._recorder.add((self._node, of_one, 0, 0, element.sequence, call_ns, share_ns))
