"""Runs blocking components, each on a daemon thread: one that never returns cannot keep the process
alive.

An inline component on trial also runs there until its first element is done: one that hangs inside
a turn holds the whole flow, and nothing can end its call. On a thread it holds nothing but itself,
and the component of before gets the element.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from torvyn._contract.config import init_argument
from torvyn._contract.inspection import class_name, read_attribute
from torvyn._contract.roles import Component
from torvyn._flow.cpu_time import ThreadCpuTime
from torvyn._flow.lifecycle_driver import LifecycleDriver, LimitExceeded, run_blocking, wrap_error
from torvyn._flow.offloaded_runner import OffloadedRunner
from torvyn._flow.runner import InlineRunner
from torvyn._io.line_output import line_prefix
from torvyn._link.plan import NodePlan

logger = logging.getLogger("torvyn.reactor")

_JOIN_S = 1.0
"""For a thread that has finished its work: it ends within microseconds."""


class ThreadRunner(OffloadedRunner):
    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        super().__init__(node, component, config)
        self._init_result: Future[None] = Future()
        self._teardown_result: Future[None] = Future()
        self._may_work = threading.Event()
        self._may_end = threading.Event()
        self._woken = threading.Event()
        self._is_working = False
        self._is_sleeping = False
        self._is_stuck = False
        self._cpu_time = ThreadCpuTime()
        self._line_prefix = line_prefix.get()
        self._thread = threading.Thread(
            target=self._run, name=f"torvyn-{class_name(component)}", daemon=True
        )

    @property
    def cpu_ns(self) -> int | None:
        return self._cpu_time.read_ns()

    @property
    def is_idle(self) -> bool:
        is_sleeping = self._is_sleeping and not self._woken.is_set() and not self.port.has_results
        return self.port.idle or is_sleeping

    def wake(self) -> None:
        self._woken.set()

    async def init(self, driver: LifecycleDriver) -> None:
        self._thread.start()
        await self._wait(driver, self._init_result, self.node.init_timeout_s)

    def start(self) -> None:
        self._is_working = True
        self._may_work.set()

    async def stop(self, driver: LifecycleDriver, limit_s: float) -> None:
        if self._thread.ident is None:
            return
        self.abandon()
        if read_attribute(self.component, "may_be_abandoned", False):
            return
        if threading.current_thread() is self._thread:
            # The component itself has driven the flow to its end: its thread ends when it returns.
            return
        if self._is_working and self.port.idle and not self.port.stopped:
            # The flow is stuck in another component: this thread ends when that call does.
            return
        # A component that hangs in `init` has used up its time.
        await self._wait(driver, self._teardown_result, 0 if self._is_stuck else limit_s)
        self._thread.join(_JOIN_S)

    def abandon(self) -> None:
        self._may_end.set()
        self._may_work.set()
        self._woken.set()
        try:
            read_attribute(self.component, "unblock")()
        except Exception:
            logger.warning("node `%s` failed in `unblock`", self.node.name, exc_info=True)

    async def _wait(
        self, driver: LifecycleDriver, future: Future[None], limit_s: float | None
    ) -> None:
        try:
            await driver.wait(future, limit_s)
        except LimitExceeded as exceeded:
            self._is_stuck = True
            exceeded.thread_id = self._thread.ident
            raise

    def _run(self) -> None:
        line_prefix.set(self._line_prefix)
        self._cpu_time.start()
        try:
            self._work()
        finally:
            self._cpu_time.stop()

    def _work(self) -> None:
        try:
            self.component.init(init_argument(self.component, self.config))
        except BaseException as error:
            self._init_result.set_exception(wrap_error(error))
            self._teardown_result.set_result(None)
            return
        self._init_result.set_result(None)
        self._may_work.wait()
        try:
            if self._is_working:
                run_blocking(self.executor.run())
        except BaseException as error:
            if self.port.stopped:
                logger.debug(
                    "node `%s` failed after the end of its flow", self.node.name, exc_info=True
                )
            else:
                self.port.fail_last(error)
        # Teardown goes from the last stage to the first: each thread waits for its turn.
        self._may_end.wait()
        try:
            self.component.teardown()
        except BaseException as error:
            self._teardown_result.set_exception(wrap_error(error))
        else:
            self._teardown_result.set_result(None)

    # The host of the executor

    async def wait_for_work(self, needs_credit: bool) -> None:
        self.port.wait(needs_credit)

    async def sleep(self, seconds: float | None) -> None:
        self._is_sleeping = True
        self._woken.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        self._is_sleeping = False
        if not self._may_end.is_set():
            self._woken.clear()


class FirstStepRunner(ThreadRunner):
    """Shares the component with the `inline` runner, which has initialized it and takes over."""

    def __init__(self, inline: InlineRunner) -> None:
        super().__init__(inline.node, inline.component, inline.config)
        self.inline = inline

    @property
    def has_taken_a_step(self) -> bool:
        """A sink that has paused keeps its thread until it resumes."""
        return self.port.given > 0 and not self._is_sleeping

    def start(self) -> None:
        self._thread.start()

    async def stop(self, driver: LifecycleDriver, limit_s: float) -> None:
        self.abandon()
        self._thread.join(min(limit_s, 1.0))
        if self._thread.is_alive():
            raise LimitExceeded(limit_s, self._thread.ident)
        await self.inline.stop(driver, limit_s)

    def _work(self) -> None:
        try:
            run_blocking(self.executor.run())
        except BaseException as error:
            if not self.port.stopped:
                self.port.fail_last(error)
