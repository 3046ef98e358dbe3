"""Hands the state of a running component over to the next one, outside the turns.

The node is held meanwhile, so its component is not called; the rest of the flow goes on. A
`snapshot` or `restore` that does not return in time loses its thread, not the flow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from torvyn._contract.inspection import describe_error
from torvyn.reactor.runners import Runner
from torvyn.reactor.swap.refusals import state_refused
from torvyn.reactor.swap.state_transfer import give_state, save_state
from torvyn.reactor.swap.swap_order import Exchange, SwapOrder
from torvyn.reactor.threads.spare_threads import call_on_spare_thread

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.swap.swapper import Swapper

ResultT = TypeVar("ResultT")


class Handover:
    """The time that a swap has, and the state that it moves."""

    def __init__(
        self, swapper: Swapper, execution: Execution, index: int, timeout_s: float
    ) -> None:
        self._swapper = swapper
        self._execution = execution
        self._index = index
        self.timeout_s = timeout_s
        self._give_up_s = time.monotonic() + timeout_s
        self.held_s = 0.0
        """When the node was held."""

    @property
    def left_s(self) -> float:
        return max(self._give_up_s - time.monotonic(), 0.0)

    def hold(self) -> tuple[Runner, bytes | None]:
        """Waits until the node is between two elements, and holds it there. Returns its runner and
        the state that native code has saved."""
        held: list[tuple[Runner, bytes | None]] = []

        def transfer(native_state: bytes | None) -> Any:
            held.append((self._execution.runners[self._index], native_state))

        order = self.order(transfer, lambda done: None, moves_state=True)
        done = self._swapper.carry_out(self._execution, self._index, order)
        self.held_s = time.perf_counter() - done.pause_ns / 1e9
        return held[0]

    def save(self, old: Runner, native_state: bytes | None) -> bytes | None:
        what = "`snapshot` of the old component"
        return self._within(old, what, lambda: save_state(old, native_state))

    def give(self, new: Runner, state: bytes | None) -> None:
        if state is not None:
            what = "`restore` of the new component"
            self._within(new, what, lambda: give_state(new, state))

    def order(
        self,
        transfer: Callable[[bytes | None], Any],
        on_exchanged: Callable[[Exchange], SwapOrder | None],
        **options: Any,
    ) -> SwapOrder:
        """An order for the node, in the time that is left."""
        runners, swaps = self._execution.runners, self._execution.swaps
        return SwapOrder(
            **{
                "node": runners[self._index].node,
                "context": swaps.context(self._index),
                "transfer": transfer,
                "on_exchanged": on_exchanged,
                "is_idle": lambda: runners[self._index].is_idle,
                "timeout_s": self.left_s,
                **options,
            }
        )

    def pause_ns(self, done: Exchange) -> int:
        """For how long the node took no elements, up to now."""
        if not self.held_s:
            return done.pause_ns
        return int((time.perf_counter() - self.held_s) * 1e9)

    def let_go(self) -> None:
        """The swap does not take place: the node goes on."""
        if (native := self._execution.native) is not None:
            native.node(self._index).let_go()

    def _within(self, runner: Runner, what: str, call: Callable[[], ResultT]) -> ResultT:
        future = call_on_spare_thread(call)
        try:
            return future.result(self.left_s)
        except BaseException as error:
            if isinstance(error, TimeoutError) and not future.done():
                why = f"{what} did not return within {self.timeout_s:g} s"
                raise state_refused(runner.node, why) from None
            raise state_refused(runner.node, describe_error(error)) from error
