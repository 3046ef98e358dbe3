"""The time limits of one run, enforced by the watchdog: for components that block or spin.

Code that waits can be cancelled; code that blocks its thread can only be reported or abandoned.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

from torvyn._flow.failures import init_timeout
from torvyn._flow.lifecycle import note_stack
from torvyn._flow.runner import Runner
from torvyn._flow.stuck_calls import StuckCall, may_block, stack_of
from torvyn._flow.threads import Alarm, set_alarm
from torvyn._link.plan import Plan
from torvyn.errors import FlowError, TorvynError

if TYPE_CHECKING:
    from torvyn._flow.execution import Execution
    from torvyn._native import ManualClock

logger = logging.getLogger("torvyn.reactor")

GRACE_S: Final = 1.0
"""How long after its deadline a run may take to end by itself."""


_NO_LIMIT: Final = nullcontext()


class TimeLimits:
    def __init__(self, execution: Execution, clock: ManualClock | None) -> None:
        # A strong reference would keep a run alive that nothing else uses.
        self._execution = weakref.ref(execution)
        self._plan = execution.plan
        self._is_manual = clock is not None
        self._created_s = time.monotonic()
        self._deadline: Alarm | None = None

    def start(self) -> None:
        """Starts the deadline, which includes `init`."""
        if self._plan.deadline_s is not None and not self._is_manual:
            due_s = self._plan.deadline_s + GRACE_S
            self._deadline = set_alarm(due_s, partial(_call, self._execution, _on_deadline))

    def deadline_left_s(self) -> float | None:
        """`init` has used some of the deadline, except under a manual clock."""
        if self._plan.deadline_s is None or self._is_manual:
            return self._plan.deadline_s
        return max(self._plan.deadline_s - (time.monotonic() - self._created_s), 0.0)

    def stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def call_limit(self, runner: Runner, phase: str) -> AbstractContextManager[None]:
        """Limits `init` or `teardown` of a component on the thread that drives."""
        is_init = phase == "init"
        limit_s = runner.node.init_timeout_s if is_init else self._plan.runtime.teardown_timeout_s
        if limit_s is None or not may_block(runner.component, phase):
            return _NO_LIMIT
        act = partial(_on_overdue, runner, phase, limit_s, threading.get_ident())
        return _AlarmContext(limit_s, partial(_call, self._execution, act))


class _AlarmContext(AbstractContextManager[None]):
    def __init__(self, limit_s: float, callback: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._callback = callback

    def __enter__(self) -> None:
        self._alarm = set_alarm(self._limit_s, self._callback)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._alarm.cancel()


def _call(reference: weakref.ref[Execution], act: Callable[[Execution], None]) -> None:
    execution = reference()
    if execution is not None and not execution.events.over.is_set():
        act(execution)


def _on_overdue(
    runner: Runner, phase: str, limit_s: float, thread_id: int, execution: Execution
) -> None:
    stack = stack_of(thread_id)
    if not execution.abandonment.is_possible:
        _report(StuckCall(runner, phase, stack), limit_s)
    elif phase == "init":
        error = init_timeout(execution.plan, runner.node)
        note_stack(error, stack)
        execution.abandonment.abandon(error, runner)
    else:
        execution.lifecycle.report_stuck(runner, phase, stack)
        execution.abandonment.end_on_new_thread()


def _on_deadline(execution: Execution) -> None:
    stuck = execution.find_stuck_call()
    if execution.abandonment.is_possible:
        execution.abandonment.abandon(deadline_exceeded(execution.plan, stuck), stuck.runner)
    else:
        _report(stuck, execution.plan.deadline_s or 0.0)


def deadline_exceeded(plan: Plan, stuck: StuckCall) -> FlowError:
    """The error of a flow that missed its deadline, with the call that was running."""
    where = "" if stuck.runner is None else f": {stuck.description} has not returned"
    error = FlowError(
        "reactor.deadline-exceeded",
        f"flow `{plan.name}` did not finish within {plan.deadline_s:g} s{where}",
        hint="raise the flow's deadline, or find the slow node with `torvyn trace`",
    )
    note_stack(error, stuck.stack)
    return error


def end_not_stored(plan: Plan, reason: TorvynError) -> FlowError:
    """The error of a flow that has done its work, and could not store its end in time."""
    return FlowError(
        "reactor.deadline-exceeded",
        f"flow `{plan.name}` did not finish within {plan.deadline_s:g} s: its end could not be "
        f"stored: {reason.message}",
        hint=reason.hint,
    )


def _report(stuck: StuckCall, limit_s: float) -> None:
    """Logs a call that blocks the caller's own thread: nothing can interrupt it."""
    logger.warning(
        "%s has not returned after %g s and blocks the thread that drives the flow%s",
        stuck.description,
        limit_s,
        f":\n{stuck.stack}" if stuck.stack else "",
        extra={
            "node": None if stuck.runner is None else stuck.runner.node.name,
            "event": "node.stuck",
        },
    )
