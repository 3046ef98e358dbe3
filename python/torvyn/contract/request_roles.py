"""Requests in flows: the source that emits a request and the processor that answers it.

Only the texts of the request flow between them, so that guards can filter them like any other text.
The rest goes directly from the source to the processor: no component between can see or forge it.
"""

from __future__ import annotations

from typing import Any

from torvyn.contract.roles import Processor, Source


class RequestSource(Source):
    """Emits the texts of a request."""

    request: Any = None
    """The whole request; set when the source is initialised."""


class AnswerNode:
    """A node that makes an answer; it keeps account of it only for a flow that saves its state."""

    is_saved = False
    """Whether the flow saves its state; set by the reactor before the flow starts."""


class RequestProcessor(Processor, AnswerNode):
    """Answers the request whose texts it receives."""

    request_source: RequestSource | None = None
    """Holds the rest of the request; set by the reactor before the flow starts."""
    emitted = 0
    """How many outputs the flow has taken; set by the reactor before it calls `snapshot`."""

    def drain(self) -> None:
        """Ends the answer after the elements sent so far. May be called from any thread."""
