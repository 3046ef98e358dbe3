"""One exchange of a stage: what the native core does, what it calls, and the report."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from torvyn._contract.element import Context
from torvyn._link.plan import NodePlan

if TYPE_CHECKING:
    from torvyn._flow.runner import Runner
    from torvyn._native import RetiredStage


class Withdrawn(Exception):
    """Nobody waits for the swap any more."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The stage that ran before, and for how long the node took no elements."""

    old: RetiredStage | None
    """None: it is still there, and its node takes no elements."""
    pause_ns: int
    failure: BaseException | None
    """The error for which the component of before comes back."""
    was_unused: bool
    """The component that failed on trial had not finished an element."""


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str
    """`ended`, `busy` or `state`."""
    what: str
    error: BaseException | None


@dataclass(eq=False)
class SwapOrder:
    """The native core reads the attributes when it gets the order."""

    node: NodePlan
    context: Context
    transfer: Callable[[bytes | None], Any]
    """Returns the work of the new stage; None holds the node for the next order."""
    on_exchanged: Callable[[Exchange], SwapOrder | None]
    """Called inside the turn; returns the way back."""
    is_idle: Callable[[], bool]
    """Whether the runner of the stage that leaves waits."""
    timeout_s: float
    trial_s: float = 0.0
    moves_state: bool = False
    discards_state: bool = False
    keeps_hold: bool = False
    """The node takes no elements afterwards either, until the next order."""
    is_return: bool = False
    is_forced: bool = False
    """The component that leaves does not return from a call."""
    is_posted: bool = False
    """The native core has it."""
    result: Future[Exchange | Refused] = field(default_factory=Future)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _is_taken: bool = False

    def prepare(self, native_state: bytes | None) -> Any:
        with self._lock:
            if self.result.cancelled():
                raise Withdrawn
            self._is_taken = True
        return self.transfer(native_state)

    def exchanged(
        self,
        old: RetiredStage | None,
        pause_ns: int,
        failure: BaseException | None,
        was_unused: bool,
    ) -> SwapOrder | None:
        done = Exchange(old, pause_ns, failure, was_unused)
        try:
            return self.on_exchanged(done)
        finally:
            self._set_result(done)

    def refused(self, reason: str, what: str, error: BaseException | None) -> None:
        self._set_result(Refused(reason, what, error))

    def end(self) -> None:
        """The flow is over."""
        self._set_result(Refused("ended", "", None))

    def withdraw(self) -> bool:
        """False: too late, the exchange is being carried out."""
        with self._lock:
            return not self._is_taken and self.result.cancel()

    def _set_result(self, result: Exchange | Refused) -> None:
        with self._lock:
            if not self.result.done():
                self.result.set_result(result)


State = Literal["restored", "empty", "none"]


@dataclass(frozen=True, slots=True)
class SwapReport:
    """A component that was exchanged for another one."""

    node: str
    component: str
    """The new component."""
    pause_ms: float
    """For how long the node took no elements. They waited in its queue."""
    state: State
    """`restored` from the old component, `empty` because the old state was discarded, or `none`
    because the component has no state."""
    is_return: bool = False
    """The component of before took its place again, because the new one failed."""
    error: str = ""
    """Why it did."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Verdict = Literal["returned", "proved", "passed", "waiting"]
"""What became of a new component: the old one is `returned`; it has `proved` itself, and its trial
is over; on trial, its first element has `passed`, or it is `waiting` for one."""


def make_report(
    runner: Runner, done: Exchange, state: State, *, is_return: bool = False
) -> SwapReport:
    component = runner.node.component.name or runner.node.component.target
    error = "" if done.failure is None else f"{type(done.failure).__name__}: {done.failure}"
    return SwapReport(
        runner.node.name, component, done.pause_ns / 1e6, state, is_return=is_return, error=error
    )
