"""The new component of a node, from its creation to its `init`, beside the one that runs."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from torvyn.link.plan import NodePlan
from torvyn.machine.resources import read_resources, resident_bytes
from torvyn.reactor.failures import init_failure, init_timeout
from torvyn.reactor.run.run_setup import connect_request, make_node_runner
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import LimitExceeded, WrappedError
from torvyn.reactor.stages.host import run_blocking
from torvyn.reactor.swap.refusals import no_memory
from torvyn.reactor.threads.spare_threads import run_on_spare_thread

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution

_SPARE_BYTES: Final = 8 << 20
"""What a second component may need beside the memory of a guest."""
_GRACE_S: Final = 1.0


class Candidate:
    def __init__(self, execution: Execution, old: Runner | None, node: NodePlan) -> None:
        if old is not None:
            check_memory(old, read_resources().limits.memory_bytes, resident_bytes())
        self._execution = execution
        self._node = node
        self._init: Future[None] | None = None
        self.runner = make_node_runner(execution.plan, node, execution.setup)
        connect_request([*execution.runners, self.runner])
        with suppress(AttributeError):
            self.runner.component.is_successor = old is not None
        execution.counts.prepare_successor(old, self.runner)

    def init(self) -> None:
        """Calls `init` on a thread of its own: one that never returns blocks nothing else."""
        done = self._init = Future()
        run_on_spare_thread(lambda: self._run_init(done))
        limit_s = self._node.init_timeout_s
        plan = self._execution.plan
        try:
            done.result(None if limit_s is None else limit_s + _GRACE_S)
        except (LimitExceeded, TimeoutError):
            raise init_timeout(plan, self._node) from None
        except BaseException as error:
            cause = error.error if isinstance(error, WrappedError) else error
            failed = init_failure(plan, self._node, cause)
            raise failed from failed.__cause__

    def _run_init(self, done: Future[None]) -> None:
        try:
            run_blocking(self.runner.init(self._execution.swaps.driver))
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

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
