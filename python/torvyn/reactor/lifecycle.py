"""The start and the end of all components of a run, each written once.

`init` goes down the stream; whatever was initialised is torn down, last first, and once, whoever
does it: a thread that got stuck half-way may be overtaken by another that takes the rest.
"""

from __future__ import annotations

import logging

from torvyn.contract.inspection import set_node
from torvyn.link.plan import Plan
from torvyn.reactor.failures import init_failure, init_timeout, is_from_outside
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import Escaped, Overdue, Place
from torvyn.reactor.threads.stuck_calls import stack_of

logger = logging.getLogger("torvyn.reactor")


class Lifecycle:
    def __init__(self, plan: Plan, runners: list[Runner]) -> None:
        self._plan = plan
        self._runners = runners
        self._standing: list[Runner] = []
        """What is to be torn down. `pop` hands each out once, to whatever thread."""
        self._is_abandoned = False

    async def init(self, place: Place) -> None:
        """Initialises all; raises for the first that fails, after those before it were undone."""
        for runner in self._runners:
            self._standing.append(runner)
            try:
                await runner.init(place)
            except BaseException as error:
                await self.teardown(place)
                raise self._init_error(runner, error) from error.__cause__
            if self._is_abandoned:
                # It came back after all, when the run was over.
                self._standing.append(runner)
                await self.teardown(place)
                raise Overdue(runner.node.init_timeout_s or 0.0)

    def _init_error(self, runner: Runner, error: BaseException) -> BaseException:
        if isinstance(error, Escaped):
            error = error.error
        if isinstance(error, Overdue):
            timeout = init_timeout(self._plan, runner.node)
            note_stack(timeout, stack_of(error.thread_id))
            return timeout
        return init_failure(self._plan, runner.node, error)

    async def teardown(self, place: Place) -> None:
        """Failures are reported, never raised: the flow is over."""
        limit_s = self._plan.runtime.teardown_timeout_s
        while self._standing:
            runner = self._standing.pop()
            try:
                await runner.stop(place, limit_s)
            except Overdue as overdue:
                self.report_stuck(runner, "teardown", stack_of(overdue.thread_id))
            except BaseException as error:
                # GeneratorExit: the coroutine is being closed, and must not wait again.
                if isinstance(error, GeneratorExit) or is_from_outside(error):
                    raise
                logger.warning("node `%s` failed in `teardown`", runner.node.name, exc_info=True)
            set_node(runner.component, None)

    def abandon(self) -> None:
        """The last resort, when there is no loop any more to await anything on."""
        while self._standing:
            runner = self._standing.pop()
            try:
                runner.abandon()
            except Exception:
                logger.warning("node `%s` failed in `teardown`", runner.node.name, exc_info=True)
            set_node(runner.component, None)

    def leave_out(self, stuck: Runner | None) -> None:
        """The run is over. A thread is stuck inside this one: nobody else may call it."""
        self._is_abandoned = True
        if stuck is not None and stuck in self._standing:
            self._standing.remove(stuck)

    def report_stuck(self, runner: Runner, phase: str, stack: str) -> None:
        logger.warning(
            "node `%s` did not end within %g s and was abandoned%s",
            runner.node.name,
            self._plan.runtime.teardown_timeout_s,
            f"; it is in `{phase}`:\n{stack}" if stack else "",
            extra={"node": runner.node.name, "event": "node.abandoned"},
        )


def note_stack(error: BaseException, stack: str) -> None:
    """Shown below the error, by Python's own tracebacks too."""
    if stack:
        error.add_note(f"where it is stuck:\n{stack}".rstrip())
