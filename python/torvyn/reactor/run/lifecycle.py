"""Initializes all components of a run, and tears them down.

`init` goes from the first component to the last, teardown from the last to the first. Each one is
torn down once: if a thread gets stuck in a teardown, another thread continues with the rest.
"""

from __future__ import annotations

import logging

from torvyn._contract.inspection import set_attribute
from torvyn._link.plan import Plan
from torvyn._native import NativeFlow
from torvyn.reactor.failures import init_failure, init_timeout, is_from_outside
from torvyn.reactor.run.error_log import log_acknowledge_failure
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver, LimitExceeded, WrappedError
from torvyn.reactor.threads.stuck_calls import stack_of

logger = logging.getLogger("torvyn.reactor")


class Lifecycle:
    def __init__(self, plan: Plan, runners: list[Runner]) -> None:
        self._plan = plan
        self._runners = runners
        self._initialized: list[Runner] = []
        """What is left to tear down. `pop` gives each runner to one thread."""
        self._is_abandoned = False

    async def init(self, driver: LifecycleDriver) -> None:
        """Initializes all; raises for the first that fails, after tearing down those before it."""
        for runner in self._runners:
            self._initialized.append(runner)
            try:
                await runner.init(driver)
            except BaseException as error:
                await self.teardown(driver)
                failed = self._init_error(runner, error)
                raise failed from failed.__cause__
            if self._is_abandoned:
                # `init` returned after the run had been abandoned.
                self._initialized.append(runner)
                await self.teardown(driver)
                raise LimitExceeded(runner.node.init_timeout_s or 0.0)

    def _init_error(self, runner: Runner, error: BaseException) -> BaseException:
        if isinstance(error, WrappedError):
            error = error.error
        if isinstance(error, LimitExceeded):
            timeout = init_timeout(self._plan, runner.node)
            note_stack(timeout, stack_of(error.thread_id))
            return timeout
        return init_failure(self._plan, runner.node, error)

    async def acknowledge(self, native: NativeFlow, driver: LifecycleDriver) -> None:
        """Delivers the acknowledgements that came after a source's last call."""
        for index, runner in enumerate(self._runners):
            count = native.take_acknowledgements(index)
            if not count:
                continue
            try:
                await runner.acknowledge(driver, count)
            except Exception as error:
                log_acknowledge_failure(error)

    async def teardown(self, driver: LifecycleDriver) -> None:
        """Logs failures and never raises them: the flow is over."""
        while self._initialized:
            await self.stop(self._initialized.pop(), driver)

    async def stop(self, runner: Runner, driver: LifecycleDriver) -> None:
        """Ends the work of a runner, tears its component down, and logs its failures."""
        try:
            await runner.stop(driver, self._plan.runtime.teardown_timeout_s)
        except LimitExceeded as exceeded:
            self.report_stuck(runner, "teardown", stack_of(exceeded.thread_id))
        except BaseException as error:
            # GeneratorExit: the coroutine is being closed and must not wait again.
            if isinstance(error, GeneratorExit) or is_from_outside(error):
                raise
            logger.warning("node `%s` failed in `teardown`", runner.node.name, exc_info=True)
        set_attribute(runner.component, "_node", None)

    def replace(self, old: Runner, new: Runner) -> None:
        """The new runner is torn down in the place of the old one, which has another owner now."""
        at = self._initialized.index(old)
        self._initialized[at] = new

    def abandon(self) -> None:
        """Tears down without waiting, when there is no loop left to await anything on."""
        while self._initialized:
            runner = self._initialized.pop()
            try:
                runner.abandon()
            except Exception:
                logger.warning("node `%s` failed in `teardown`", runner.node.name, exc_info=True)
            set_attribute(runner.component, "_node", None)

    def exclude(self, stuck: Runner | None) -> None:
        """Ends the run. A thread is stuck inside `stuck`, so it is not torn down."""
        self._is_abandoned = True
        if stuck is not None and stuck in self._initialized:
            self._initialized.remove(stuck)

    def report_stuck(self, runner: Runner, phase: str, stack: str) -> None:
        logger.warning(
            "node `%s` did not end within %g s and was abandoned%s",
            runner.node.name,
            self._plan.runtime.teardown_timeout_s,
            f"; it is in `{phase}`:\n{stack}" if stack else "",
            extra={"node": runner.node.name, "event": "node.abandoned"},
        )


def note_stack(error: BaseException, stack: str) -> None:
    """Adds a stack to the error, which Python's tracebacks show too."""
    if stack:
        error.add_note(f"where it is stuck:\n{stack}".rstrip())
