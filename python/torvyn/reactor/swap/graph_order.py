"""A new graph for some segments, as the native core puts it in place inside a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torvyn._contract.element import Context
from torvyn._link.plan import NodePlan

if TYPE_CHECKING:
    from torvyn._native import RetiredStage
    from torvyn.reactor.carriers.exchange.rewired_plan import NumberedEdge


@dataclass(frozen=True, slots=True)
class Joining:
    """A node that joins the flow."""

    plan: NodePlan
    work: Any
    context: Context
    by_checkpoint: bool
    """Whether its elements are settled by checkpoints."""


@dataclass(eq=False)
class GraphOrder:
    """The native core reads the attributes when it gets the order."""

    joining: Sequence[Joining]
    leaving: Sequence[int]
    saved: Sequence[int]
    """Those whose states were handed over, or are to be dropped."""
    successors: Sequence[tuple[int, int]]
    staying: Sequence[int]
    by_checkpoint: Sequence[int]
    """Of the nodes that stay, those whose elements are settled by checkpoints."""
    edges: Sequence[NumberedEdge]
    order: Sequence[int]
    segment_of: Sequence[int]
    segments: int
    on_exchanged: Callable[[], None]
    """Called inside the turn."""
    result: Future[list[RetiredStage] | None] = field(default_factory=Future)
    """The stages of the nodes that have left; None if a node has ended before."""

    def exchanged(self, stages: list[RetiredStage]) -> None:
        try:
            self.on_exchanged()
        except BaseException as error:
            self.result.set_exception(error)
        else:
            self.result.set_result(stages)

    def refused(self, _reason: str, _what: str) -> None:
        self.result.set_result(None)
