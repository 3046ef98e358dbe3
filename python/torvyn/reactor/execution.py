"""The execution: one run of a Plan, from launch to the last fact.

It owns the native flow and the components for the time of the run. When the last turn has run, on
whatever thread, it keeps the facts, tears down and tells those who wait.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace

from torvyn._native import ManualClock, NativeFlow
from torvyn.contract import End
from torvyn.link.plan import Plan
from torvyn.reactor import statistics
from torvyn.reactor.failure import exception_of
from torvyn.reactor.launch import Launch

Call = tuple[str, str, int, int, int, int, int]
"""Node, outcome, made, bytes the node had copied by then, sequence, start and duration in
nanoseconds."""


class Execution:
    def __init__(self, plan: Plan, clock: ManualClock | None, limit: int, trace_limit: int) -> None:
        self.plan = plan
        self.error: BaseException | None = None
        self.over = threading.Event()
        self.is_on_loop = False
        """An event loop drives: the teardown may have to be awaited, so the loop's driver does
        it."""
        self.stop_ringing: Callable[[], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.trace: tuple[list[Call], int] = ([], 0)
        self._limit = limit
        self._trace_limit = trace_limit
        self._state = "validated"
        self._is_cancelled = False
        self._started_s = 0.0
        self._native: NativeFlow | None = None
        self._final: statistics.Statistics | None = None
        self._clock = clock

    # Start

    def prepare(self) -> Execution:
        """Makes the components; nothing of theirs has been called yet."""
        try:
            self.launch = Launch(self.plan, self._clock, self._trace_limit)
        except BaseException as error:
            self.fail_early(error)
            raise
        return self

    def start(self) -> NativeFlow:
        """Initialises the components from this thread and builds the native flow."""
        try:
            self.launch.init()
        except BaseException as error:
            self.fail_early(error)
            raise
        try:
            native = self._build()
        except BaseException as error:
            self.launch.teardown()
            self.fail_early(error)
            raise
        return self._begin(native)

    async def start_on_loop(self) -> NativeFlow:
        """The same on the running event loop, which drives from now on."""
        self.is_on_loop = True
        try:
            await self.launch.init_async()
        except BaseException as error:
            self.fail_early(error)
            raise
        try:
            native = self._build()
        except BaseException as error:
            await self.launch.teardown_async()
            self.fail_early(error)
            raise
        return self._begin(native)

    def _build(self) -> NativeFlow:
        self._state = "instantiated"
        return self.launch.build()

    def _begin(self, native: NativeFlow) -> NativeFlow:
        # The hook must not keep this alive: an abandoned flow is collected and cancels itself.
        this = weakref.ref(self)

        def over() -> None:
            execution = this()
            if execution is not None:
                execution._on_over()

        native.on_over(over)
        if self._limit:
            native.limit(self._limit)
        if self._trace_limit:
            native.trace(self._trace_limit)
        self._native = native
        if self._is_cancelled:
            native.cancel()
        self._started_s = time.monotonic()
        self.launch.go()
        return native

    def fail_early(self, error: BaseException) -> None:
        self._state, self.error = "failed", error
        self.over.set()

    # End

    def _on_over(self) -> None:
        if self._final is not None or self._native is None:
            return
        try:
            self._keep_facts(self._native)
            if self.is_on_loop:
                return
            self.launch.teardown()
            if self.plan.tail is None:
                self._native.close()
        finally:
            # Whatever a component raises from its teardown: those who wait hear of the end.
            if not self.is_on_loop:
                self.over.set()
            if self.on_end is not None:
                self.on_end()
                self.on_end = None

    def _keep_facts(self, native: NativeFlow) -> None:
        raw = native.take_failure()
        if raw is not None:
            self.error = exception_of(self.plan, self.launch.wiring, raw)
        self._final = self.statistics
        if self._trace_limit:
            events, missed = native.take_trace()
            names = [node.name for node in self.plan.nodes]
            elsewhere = self.launch.recording
            calls: list[Call] = [(names[event[0]], *event[1:]) for event in events]
            calls = sorted(elsewhere.calls + calls, key=lambda call: call[5])
            self.trace = calls, missed + elsewhere.missed

    def leave(self) -> None:
        """The caller goes away: cancel what still runs, and let go of the components."""
        native = self._native
        if native is None:
            return
        if not self.over.is_set():
            native.cancel()
            native.drive(False, False)
        self._count_last_outputs()
        native.close()
        if self.stop_ringing is not None:
            self.stop_ringing()
            self.stop_ringing = None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Fed and then dropped, or its loop went down first: stages elsewhere would wait for ever.
        if self._native is None or self.over.is_set() or is_finalizing():
            return
        self.leave()
        # The flow's own hook finds nobody any more.
        self._on_over()
        if self.is_on_loop:
            self.launch.let_go()

    def _count_last_outputs(self) -> None:
        """What a flush sent to the caller was still waiting for him when the facts were kept."""
        if self._final is not None and self.plan.tail is not None:
            elapsed_s, self._final = self._final.elapsed_s, None
            self._final = replace(self.statistics, elapsed_s=elapsed_s)

    async def leave_loop(self) -> None:
        """The same on the loop that drives."""
        native = self._native
        if native is None:
            return
        if not native.is_over:
            native.cancel()
            native.drive(False, False)
        try:
            await self.launch.teardown_async()
        except BaseException:
            # Cancelled, or dropped with its loop.
            self.launch.let_go()
            raise
        finally:
            self._count_last_outputs()
            native.close()
            self.over.set()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._native is not None:
            self._native.cancel()

    def raise_failure(self) -> None:
        if self.error is not None:
            raise self.error

    # Facts

    @property
    def native(self) -> NativeFlow | None:
        return self._native

    @property
    def state(self) -> str:
        return self._native.state if self._native is not None else self._state

    @property
    def end(self) -> End | None:
        return self._native.end() if self._native is not None else None

    @property
    def is_final(self) -> bool:
        return self._final is not None

    @property
    def statistics(self) -> statistics.Statistics:
        if self._final is not None:
            return self._final
        if self._native is None:
            return statistics.nothing_yet(self.plan, self._state)
        elapsed_s = time.monotonic() - self._started_s
        raw = self._native.statistics()
        launch = self.launch
        return statistics.from_native(
            self.plan, launch.wiring, raw, elapsed_s, launch.guests, launch.denied
        )
