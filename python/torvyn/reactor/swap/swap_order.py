"""One exchange of a stage: what the native core does, and what it calls inside the turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torvyn.contract import Context
from torvyn.link.plan import NodePlan

if TYPE_CHECKING:
    from torvyn._native import RetiredStage
    from torvyn.reactor.swap.swap_report import SwapReport


class Withdrawn(Exception):
    """Nobody waits for the swap any more."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The stage that ran before, and for how long the node took no elements."""

    old: RetiredStage
    pause_ns: int
    failure: BaseException | None
    """The error for which the component of before is back."""


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
    """Gives the new stage the state of the old one, and returns its work."""
    on_exchanged: Callable[[Exchange], SwapOrder | None]
    """Called inside the turn; returns the way back."""
    is_idle: Callable[[], bool]
    """Whether the runner of the old stage waits."""
    timeout_s: float
    trial_s: float
    moves_state: bool
    discards_state: bool
    keeps_hold: bool = False
    """The node takes no elements afterwards either, until the next order."""
    is_return: bool = False
    report: SwapReport | None = None
    """What it did, once it is carried out."""
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
        self, old: RetiredStage, pause_ns: int, failure: BaseException | None
    ) -> SwapOrder | None:
        done = Exchange(old, pause_ns, failure)
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
