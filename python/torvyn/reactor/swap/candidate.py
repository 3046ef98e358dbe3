"""The new component of a node, from its creation to its `init`, beside the one that runs."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final

from torvyn._io.background_loop import start_loop
from torvyn._io.resources import read_resources, resident_bytes
from torvyn._link.plan import NodePlan
from torvyn.reactor.failures import init_failure, init_timeout
from torvyn.reactor.run.run_setup import connect_request, make_node_runner, make_successor
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.async_runner import AsyncRunner
from torvyn.reactor.runners.lifecycle_driver import LimitExceeded, WrappedError
from torvyn.reactor.stages.host import run_blocking
from torvyn.reactor.swap.refusals import no_memory
from torvyn.reactor.threads.spare_threads import call_on_spare_thread, run_on_spare_thread

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution

_SPARE_BYTES: Final = 8 << 20
"""What a second component may need beside the memory of a guest."""
_GRACE_S: Final = 1.0


class Candidate:
    runner: Runner

    def __init__(self, execution: Execution, old: Runner, node: NodePlan) -> None:
        check_memory(old, read_resources().limits.memory_bytes, resident_bytes())
        self._execution = execution
        self._old = old
        self._node = node
        self._init: Future[None] | None = None

    def create(self) -> None:
        """Makes the component. Like `init`, it runs on a thread of its own: one that never returns
        blocks nothing else."""
        execution, node = self._execution, self._node
        made = call_on_spare_thread(
            partial(make_node_runner, execution.plan, node, execution.setup)
        )
        try:
            self.runner = made.result(self._limit_s)
        except TimeoutError:
            if made.done():
                raise
            raise init_timeout(execution.plan, node) from None
        connect_request([*execution.runners, self.runner])
        make_successor(self.runner.component)
        execution.counts.prepare_successor(self._old, self.runner)

    def init(self) -> None:
        if isinstance(self.runner, AsyncRunner) and not self._execution.is_on_loop:
            # The old component may run on the loop of all flows, which this one could block.
            self.runner.owned_loop = start_loop()
        self._init = call_on_spare_thread(self._run_init)
        plan = self._execution.plan
        try:
            self._init.result(self._limit_s)
        except (LimitExceeded, TimeoutError):
            raise init_timeout(plan, self._node) from None
        except BaseException as error:
            cause = error.error if isinstance(error, WrappedError) else error
            failed = init_failure(plan, self._node, cause)
            raise failed from failed.__cause__

    @property
    def _limit_s(self) -> float | None:
        limit_s = self._node.init_timeout_s
        return None if limit_s is None else limit_s + _GRACE_S

    def _run_init(self) -> None:
        run_blocking(self.runner.init(self._execution.swaps.driver))

    def discard(self) -> None:
        """Tears it down when its `init` has returned."""
        if self._init is not None:
            self._init.add_done_callback(lambda _: run_on_spare_thread(self._stop))

    def _stop(self) -> None:
        execution = self._execution
        run_blocking(execution.lifecycle.stop(self.runner, execution.swaps.driver))


def check_memory(old: Runner, limit_bytes: int | None, used_bytes: int | None) -> None:
    """Raises if the control group of the process has no room for two instances."""
    if limit_bytes is None or used_bytes is None:
        return
    needed_bytes = _SPARE_BYTES + (old.guest.health.memory_bytes if old.guest else 0)
    if used_bytes + needed_bytes > limit_bytes:
        raise no_memory(old.node, needed_bytes, limit_bytes - used_bytes)
