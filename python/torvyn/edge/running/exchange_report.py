"""How one generation took the place of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from torvyn._contract.enums import TextEnum


class Way(TextEnum):
    SWAP = "swap"
    """Components were swapped in the process that runs."""
    RESTART = "restart"
    """A flow restarted from its checkpoint with another graph, in the process that runs."""
    PROCESS = "process"
    """A new process took over."""


@dataclass(frozen=True, slots=True)
class ExchangeReport:
    generation: int
    replaced: int
    way: Way
    reason: str = ""
    """Why the process was exchanged."""
    changes: Mapping[str, list[str]] = field(default_factory=dict)
    """What has changed, by node; FLOW.NODE if the process runs several flows."""
    graph: tuple[str, ...] = ()
    """Nodes and edges that were added, removed or changed, in words."""
    pause_ms: float = 0.0
    """For how long a node, or the flow, took no elements."""
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def of_answer(cls, generation: int, replaced: int, answer: Mapping[str, Any]) -> ExchangeReport:
        """From the answer of the process that runs the flows."""
        return cls(
            generation,
            replaced,
            Way(answer["way"]),
            changes=dict(answer["changes"]),
            graph=tuple(answer["graph"]),
            pause_ms=round(float(answer["pause_ms"]), 3),
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        """For the log."""
        head = f"generation {self.generation} replaces {self.replaced}"
        pause = f"paused for {self.pause_ms:.3g} ms"
        nodes = ", ".join(f"{name} ({', '.join(what)})" for name, what in self.changes.items())
        if self.way is Way.PROCESS:
            return f"{head} in a new process, {pause}: {self.reason}"
        if self.way is Way.RESTART:
            graph = "; ".join(self.graph)
            return f"{head} with a restart from the checkpoint ({graph}), {pause}"
        return f"{head}: swapped {nodes}, {pause}" if nodes else f"{head}: no node has changed"
