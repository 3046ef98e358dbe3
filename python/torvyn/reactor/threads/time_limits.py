"""The time limits of one run, kept by the watchdog: for components that block or spin.

What waits can be told to stop; what holds its thread can only be reported, or left behind.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

from torvyn.errors import FlowError
from torvyn.link.plan import Plan
from torvyn.reactor.failures import init_timeout
from torvyn.reactor.lifecycle import note_stack
from torvyn.reactor.runners import Runner
from torvyn.reactor.threads.stuck_calls import Stuck, may_block, stack_of
from torvyn.reactor.threads.watchdog import Alarm, alarm

if TYPE_CHECKING:
    from torvyn.reactor.execution import Execution

logger = logging.getLogger("torvyn.reactor")

GRACE_S: Final = 1.0
"""How long a run may take to end by itself when its deadline has passed."""


_UNWATCHED: Final = nullcontext()


class TimeLimits:
    def __init__(self, execution: Execution) -> None:
        # Weakly: a limit must not keep a run that everybody else has forgotten.
        self._execution = weakref.ref(execution)
        self._plan = execution.plan
        self._deadline: Alarm | None = None

    def start(self) -> None:
        """The run begins: its deadline counts from here, `init` included."""
        if self._plan.deadline_s is not None:
            due_s = self._plan.deadline_s + GRACE_S
            self._deadline = alarm(due_s, partial(_call, self._execution, _on_deadline))

    def stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def watched(self, runner: Runner, phase: str) -> AbstractContextManager[None]:
        """Around `init` and `teardown` of a component on the thread that drives."""
        is_init = phase == "init"
        limit_s = runner.node.init_timeout_s if is_init else self._plan.runtime.teardown_timeout_s
        if limit_s is None or not may_block(runner.component, phase):
            return _UNWATCHED
        act = partial(_on_overdue, runner, phase, limit_s, threading.get_ident())
        return _Watch(limit_s, partial(_call, self._execution, act))


class _Watch(AbstractContextManager[None]):
    def __init__(self, limit_s: float, callback: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._callback = callback

    def __enter__(self) -> None:
        self._alarm = alarm(self._limit_s, self._callback)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._alarm.cancel()


def _call(reference: weakref.ref[Execution], act: Callable[[Execution], None]) -> None:
    execution = reference()
    if execution is not None and not execution.over.is_set():
        act(execution)


def _on_overdue(
    runner: Runner, phase: str, limit_s: float, thread_id: int, execution: Execution
) -> None:
    stack = stack_of(thread_id)
    if not execution.abandonment.is_possible:
        _report(Stuck(runner, phase, stack), limit_s)
    elif phase == "init":
        error = init_timeout(execution.plan, runner.node)
        note_stack(error, stack)
        execution.abandonment.abandon(error, runner)
    else:
        execution.lifecycle.report_stuck(runner, phase, stack)
        execution.abandonment.end_elsewhere()


def _on_deadline(execution: Execution) -> None:
    stuck = execution.find_stuck()
    if execution.abandonment.is_possible:
        execution.abandonment.abandon(deadline_exceeded(execution.plan, stuck), stuck.runner)
    else:
        _report(stuck, execution.plan.deadline_s or 0.0)


def deadline_exceeded(plan: Plan, stuck: Stuck) -> FlowError:
    """A flow that was not done in time, with the call that it was in."""
    where = "" if stuck.runner is None else f": {stuck.place} has not returned"
    error = FlowError(
        "reactor.deadline-exceeded",
        f"flow `{plan.name}` was not done within {plan.deadline_s:g} s{where}",
        hint="raise the flow's deadline, or find the slow node with `torvyn trace`",
    )
    note_stack(error, stuck.stack)
    return error


def _report(stuck: Stuck, limit_s: float) -> None:
    """The thread is the caller's own: nobody can take it out of the component."""
    logger.warning(
        "%s has not returned after %g s and keeps the thread that drives the flow%s",
        stuck.place,
        limit_s,
        f":\n{stuck.stack}" if stuck.stack else "",
        extra={
            "node": None if stuck.runner is None else stuck.runner.node.name,
            "event": "node.stuck",
        },
    )
