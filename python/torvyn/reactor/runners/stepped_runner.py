"""Stages without a thread or a loop: a simulator moves each one step at a time.

The procedure is the one that threads and loops run; here it is suspended before every call of the
component and wherever it waits. Time is a clock moved by hand, and nothing depends on the order in
which threads happen to run: there are none but that of a sync `torvyn.stream`, which runs in
lockstep with its reader.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final

from torvyn._native import ManualClock, Waker
from torvyn.contract import Component
from torvyn.link.plan import NodePlan
from torvyn.reactor.runners.lifecycle_driver import Overdue, Place
from torvyn.reactor.runners.offloaded_node import Offloaded, awaited_failure

_MOST_STEPS: Final = 100_000
"""After so many, what was asked to end never will."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a stage is suspended. `due_ns` None: not for a time."""

    for_what: str
    """`step`, `reactor` or `rest`."""
    due_ns: int | None = None

    def __await__(self) -> Generator[Wait, None, None]:
        yield self


_STEP: Final = Wait("step")
_REACTOR: Final = Wait("reactor")


class Steps:
    """The stepped stages of one run, in the order of their nodes.

    flow._execute(steps=Steps(clock)).start(), then any mix of `native.turn_once()`,
    `runner.move()` for a runner that `can_move`, and `clock.advance_ns`.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.runners: list[SteppedRunner] = []
        self._clock = clock
        self._waker = Waker()

    @property
    def now_ns(self) -> int:
        return self._clock.now_ns

    @property
    def next_due_ns(self) -> int | None:
        """When the first stage that waits for the clock may move."""
        return min((r.due_ns for r in self.runners if r.due_ns is not None), default=None)

    def sleep(self, seconds: float) -> Wait:
        """For components: `await steps.sleep(2)` takes two seconds of the clock."""
        return Wait("rest", self.now_ns + round(seconds * 1e9))

    def runner(self, node: NodePlan, component: Component, config: str) -> SteppedRunner:
        made = SteppedRunner(node, component, config, self)
        made.port.notify(self._waker, len(self.runners))
        self.runners.append(made)
        return made

    def poll(self) -> None:
        """Hears which stages the reactor has handed something to."""
        for token in self._waker.take():
            self.runners[token].is_notified = True


class SteppedRunner(Offloaded):
    steps = True

    def __init__(self, node: NodePlan, component: Component, config: str, steps: Steps) -> None:
        super().__init__(node, component, config)
        self.awaits = node.run == "async"
        self.is_notified = False
        self._steps = steps
        self._work: Coroutine[Any, Any, None] | None = None
        self._wait = _STEP
        self._is_rung = False
        self._is_initialised = False
        self._is_cancelled = False
        self._has_cut = False
        self._cut_ns: int | None = None

    # For the simulator

    @property
    def can_move(self) -> bool:
        if self._work is None:
            return False
        if self._must_cancel or self._is_due:
            return True
        if self._wait is _REACTOR:
            self._steps.poll()
            return self.is_notified or self.port.stopped
        return self._wait.for_what == "step" or self._is_rung

    @property
    def due_ns(self) -> int | None:
        """When the clock alone makes it move; None: never."""
        if self._work is None:
            return None
        times = [due for due in (self._wait.due_ns, self._cut_ns) if due is not None]
        return min(times, default=None)

    @property
    def is_idle(self) -> bool:
        return not self.can_move

    def move(self) -> None:
        """One step: to the next call of the component, or to where it waits again."""
        work = self._work
        assert work is not None, "a stage that has ended does not move"
        try:
            self._wait = _wait_of(self._resume(work))
        except StopIteration:
            self._work = None
        except asyncio.CancelledError:
            self._work = None
        except BaseException as error:
            self._work = None
            if not self.port.stopped:
                self.port.fail_last(error)

    def _resume(self, work: Coroutine[Any, Any, None]) -> Any:
        is_cut = self._cut_ns is not None and self._steps.now_ns >= self._cut_ns
        if self._wait is _REACTOR:
            self.is_notified = False
        if not self._must_cancel and not is_cut:
            return work.send(None)
        if self._must_cancel:
            self._is_cancelled = True
        else:
            self._has_cut, self._cut_ns = True, None
        return work.throw(asyncio.CancelledError())

    @property
    def _must_cancel(self) -> bool:
        """A task is cancelled when its flow stops; a thread is not."""
        return self.awaits and self.port.stopped and not self._is_cancelled

    @property
    def _is_due(self) -> bool:
        due_ns = self.due_ns
        return due_ns is not None and self._steps.now_ns >= due_ns

    # The runner

    def ring(self) -> None:
        self._is_rung = True

    async def init(self, place: Place) -> None:
        _run(self.component.init(self.config))
        self._is_initialised = True

    def work(self) -> None:
        self._work = self.procedure.work()

    async def stop(self, place: Place, limit_s: float) -> None:
        for _ in range(_MOST_STEPS):
            if self._work is None:
                break
            self._is_rung = self.is_notified = True
            self.move()
        else:
            raise Overdue(limit_s)
        if self._is_initialised:
            self._is_initialised = False
            _run(self.component.teardown())

    def abandon(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None

    # The host of the procedure

    async def ready(self, for_credit: bool) -> None:
        self.end_call()
        await _REACTOR

    async def rest(self, seconds: float | None) -> None:
        self.end_call()
        await Wait("rest") if seconds is None else await self._steps.sleep(seconds)
        self._is_rung = False

    async def step(self) -> None:
        # Elsewhere nothing can come between two calls, so the limit of the first ends with it.
        self.end_call()
        await _STEP

    def begin_call(self) -> None:
        self._cut_ns = self._steps.now_ns + round(self.node.call_timeout_s * 1e9)

    def end_call(self) -> None:
        self._cut_ns = None

    def failure_of(self, error: BaseException) -> BaseException:
        has_cut, self._has_cut = self._has_cut, False
        return awaited_failure(error, has_cut, self._is_cancelled, self.node.call_timeout_s)


def _wait_of(yielded: Any) -> Wait:
    """What a component awaits that is not ours, such as `asyncio.sleep(0)`, is a step."""
    return yielded if isinstance(yielded, Wait) else _STEP


def _run(value: Any) -> None:
    """`init` or `teardown`, at once."""
    if not inspect.iscoroutine(value):
        return
    for _ in range(_MOST_STEPS):
        try:
            value.send(None)
        except StopIteration:
            return
    value.close()
    raise Overdue(0.0)
