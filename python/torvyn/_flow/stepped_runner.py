"""Runs stages without threads or loops: a simulator moves each one step at a time.

The executor is the one that threads and loops run. Here it is suspended before every call of the
component and wherever it waits, and time is a manual clock, so runs repeat exactly. Only a sync
`torvyn.stream` has a thread, which runs in lockstep with its reader.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final

from torvyn._contract.config import init_argument
from torvyn._contract.roles import Component
from torvyn._flow.lifecycle_driver import LifecycleDriver, LimitExceeded
from torvyn._flow.offloaded_runner import OffloadedRunner, awaited_call_error
from torvyn._link.plan import NodePlan
from torvyn._native import ManualClock, Waker

_MOST_STEPS: Final = 100_000
"""A stage that takes more steps to end never will."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a stage is suspended. `due_ns` None: not for a time."""

    reason: str
    """`step`, `reactor` or `sleep`."""
    due_ns: int | None = None

    def __await__(self) -> Generator[Wait, None, None]:
        yield self


_STEP: Final = Wait("step")
_REACTOR: Final = Wait("reactor")


class StepScheduler:
    """The stepped stages of one run, in the order of their nodes.

    Call `flow._execute(scheduler=StepScheduler(clock)).start()`, then any mix of
    `native.turn_once()`, `runner.step_once()` of a runner that `can_step`, and `clock.advance_ns`.
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
        """When the clock next lets a stage take a step."""
        return min((r.due_ns for r in self.runners if r.due_ns is not None), default=None)

    def sleep(self, seconds: float) -> Wait:
        """For components: `await scheduler.sleep(2)` takes two seconds of the clock."""
        return Wait("sleep", self.now_ns + round(seconds * 1e9))

    def runner(self, node: NodePlan, component: Component, config: str) -> SteppedRunner:
        runner = SteppedRunner(node, component, config, self)
        runner.port.notify(self._waker, len(self.runners))
        self.runners.append(runner)
        return runner

    def poll(self) -> None:
        """Marks the stages that the reactor has notified."""
        for token in self._waker.take():
            self.runners[token].is_notified = True


class SteppedRunner(OffloadedRunner):
    is_stepped = True

    def __init__(
        self, node: NodePlan, component: Component, config: str, scheduler: StepScheduler
    ) -> None:
        super().__init__(node, component, config)
        self.is_async = node.run == "async"
        self.is_notified = False
        self._scheduler = scheduler
        self._work: Coroutine[Any, Any, None] | None = None
        self._wait = _STEP
        self._is_woken = False
        self._is_initialized = False
        self._is_cancelled = False
        self._has_timed_out = False
        self._timeout_ns: int | None = None

    # For the simulator

    @property
    def can_step(self) -> bool:
        if self._work is None:
            return False
        if self._must_cancel or self._is_due:
            return True
        if self._wait is _REACTOR:
            self._scheduler.poll()
            return self.is_notified or self.port.stopped
        return self._wait.reason == "step" or self._is_woken

    @property
    def due_ns(self) -> int | None:
        """When the clock alone lets it take a step; None: never."""
        if self._work is None:
            return None
        times = [due for due in (self._wait.due_ns, self._timeout_ns) if due is not None]
        return min(times, default=None)

    @property
    def is_idle(self) -> bool:
        return not self.can_step

    def step_once(self) -> None:
        """Runs to the next call of the component, or to where it waits again."""
        work = self._work
        assert work is not None, "the stage has ended"
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
        is_overdue = self._timeout_ns is not None and self._scheduler.now_ns >= self._timeout_ns
        if self._wait is _REACTOR:
            self.is_notified = False
        if not self._must_cancel and not is_overdue:
            return work.send(None)
        if self._must_cancel:
            self._is_cancelled = True
        else:
            self._has_timed_out, self._timeout_ns = True, None
        return work.throw(asyncio.CancelledError())

    @property
    def _must_cancel(self) -> bool:
        """A task is cancelled when its flow stops; a thread is not."""
        return self.is_async and self.port.stopped and not self._is_cancelled

    @property
    def _is_due(self) -> bool:
        due_ns = self.due_ns
        return due_ns is not None and self._scheduler.now_ns >= due_ns

    # The runner

    def wake(self) -> None:
        self._is_woken = True

    async def init(self, driver: LifecycleDriver) -> None:
        _run(self.component.init(init_argument(self.component, self.config)))
        self._is_initialized = True

    def start(self) -> None:
        self._work = self.executor.run()

    async def stop(self, driver: LifecycleDriver, limit_s: float) -> None:
        for _ in range(_MOST_STEPS):
            if self._work is None:
                break
            self._is_woken = self.is_notified = True
            self.step_once()
        else:
            raise LimitExceeded(limit_s)
        if self._is_initialized:
            self._is_initialized = False
            _run(self.component.teardown())

    def abandon(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None

    # The host of the executor

    async def wait_for_work(self, needs_credit: bool) -> None:
        self.end_call()
        await _REACTOR

    async def sleep(self, seconds: float | None) -> None:
        self.end_call()
        await Wait("sleep") if seconds is None else await self._scheduler.sleep(seconds)
        self._is_woken = False

    async def step(self) -> None:
        # Other hosts do not suspend between two calls: the limit of the first ends here too.
        self.end_call()
        await _STEP

    def begin_call(self) -> None:
        self._timeout_ns = self._scheduler.now_ns + round(self.node.call_timeout_s * 1e9)

    def end_call(self) -> None:
        self._timeout_ns = None

    def failure_of(self, error: BaseException) -> BaseException:
        has_timed_out, self._has_timed_out = self._has_timed_out, False
        return awaited_call_error(
            error, has_timed_out, self._is_cancelled, self.node.call_timeout_s
        )


def _wait_of(yielded: Any) -> Wait:
    """Whatever else a component awaits, such as `asyncio.sleep(0)`, counts as a step."""
    return yielded if isinstance(yielded, Wait) else _STEP


def _run(value: Any) -> None:
    """Runs `init` or `teardown` to its end."""
    if not inspect.iscoroutine(value):
        return
    for _ in range(_MOST_STEPS):
        try:
            value.send(None)
        except StopIteration:
            return
    value.close()
    raise LimitExceeded(0.0)
