"""The two ends of an edge that leaves the process, as components of the wired flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torvyn._contract.roles import Sink, Source

if TYPE_CHECKING:
    from torvyn._native import EdgeLog


class EdgeWriter(Sink):
    """Encodes what it accepts; the carrier makes it durable."""

    log: EdgeLog | None = None

    def native_stage(self, config: str) -> tuple[str, dict[str, Any]]:
        return "log-writer", {"log": self.log}


class EdgeReader(Source):
    """Emits what the carrier supplies, in order or newest first."""

    log: EdgeLog | None = None
    rate: float = 0.0
    by_checkpoint = False

    def native_stage(self, config: str) -> tuple[str, dict[str, Any]]:
        parameters = {"log": self.log, "rate": self.rate, "by_checkpoint": self.by_checkpoint}
        return "log-reader", parameters
