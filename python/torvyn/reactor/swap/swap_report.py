"""What a swap did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torvyn.reactor.runners import Runner
    from torvyn.reactor.swap.swap_order import Exchange

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
