"""Runs an inline component on trial on a thread of its own until its first element is done.

A component that hangs inside a turn holds the whole flow, and nothing can end its call. On a thread
it holds nothing but itself, and the component of before gets the element.
"""

from __future__ import annotations

from torvyn.reactor.runners.inline_runner import InlineRunner
from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver, LimitExceeded
from torvyn.reactor.runners.thread_runner import ThreadRunner
from torvyn.reactor.stages.host import run_blocking


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
