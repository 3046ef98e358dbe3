"""Blocking components: each on a daemon thread, so that one that never returns cannot keep the
program alive."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from torvyn.contract import Component
from torvyn.contract.inspection import class_name, read_attribute
from torvyn.link.plan import NodePlan
from torvyn.reactor.runners.lifecycle_driver import Overdue, Place, carried
from torvyn.reactor.runners.offloaded_node import Offloaded
from torvyn.reactor.stages import run_blocking

logger = logging.getLogger("torvyn.reactor")

_JOIN_S = 1.0
"""For a thread whose last line of ours has run: it needs microseconds."""


class ThreadRunner(Offloaded):
    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        super().__init__(node, component, config)
        self._ready: Future[None] = Future()
        """`init` has come to an end."""
        self._ended: Future[None] = Future()
        """`teardown` has."""
        self._may_work = threading.Event()
        self._may_end = threading.Event()
        self._rung = threading.Event()
        self._is_working = False
        self._is_resting = False
        self._is_stuck = False
        self._thread = threading.Thread(
            target=self._run, name=f"torvyn-{class_name(component)}", daemon=True
        )

    @property
    def is_idle(self) -> bool:
        is_resting = self._is_resting and not self._rung.is_set() and not self.port.has_results
        return self.port.idle or is_resting

    def ring(self) -> None:
        self._rung.set()

    async def init(self, place: Place) -> None:
        self._thread.start()
        await self._wait(place, self._ready, self.node.init_timeout_s)

    def work(self) -> None:
        self._is_working = True
        self._may_work.set()

    async def stop(self, place: Place, limit_s: float) -> None:
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
        # One that hangs in `init` has had its time.
        await self._wait(place, self._ended, 0 if self._is_stuck else limit_s)
        self._thread.join(_JOIN_S)

    def abandon(self) -> None:
        self._may_end.set()
        self._may_work.set()
        self._rung.set()

    async def _wait(self, place: Place, future: Future[None], limit_s: float | None) -> None:
        try:
            await place.wait(future, limit_s)
        except Overdue as overdue:
            self._is_stuck = True
            overdue.thread_id = self._thread.ident
            raise

    def _run(self) -> None:
        try:
            self.component.init(self.config)
        except BaseException as error:
            self._ready.set_exception(carried(error))
            self._ended.set_result(None)
            return
        self._ready.set_result(None)
        self._may_work.wait()
        try:
            if self._is_working:
                run_blocking(self.procedure.work())
        except BaseException as error:
            if self.port.stopped:
                logger.debug("node `%s` failed after its flow", self.node.name, exc_info=True)
            else:
                self.port.fail_last(error)
        # Teardown goes from the last stage to the first: each waits for its turn.
        self._may_end.wait()
        try:
            self.component.teardown()
        except BaseException as error:
            self._ended.set_exception(carried(error))
        else:
            self._ended.set_result(None)

    # The host of the procedure

    async def ready(self, for_credit: bool) -> None:
        self.port.wait(for_credit)

    async def rest(self, seconds: float | None) -> None:
        self._is_resting = True
        self._rung.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        self._is_resting = False
        if not self._may_end.is_set():
            self._rung.clear()
