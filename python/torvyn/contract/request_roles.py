"""Requests in flows: the source that asks and the processor that answers it.

Between them flow the texts of the request alone, so that a guard judges and rewrites them like any
other text. The rest of it goes from the source to the processor directly: no component on the way
sees it, and none can forge it.
"""

from __future__ import annotations

from typing import Any

from torvyn.contract.roles import Processor, Source


class RequestSource(Source):
    """Emits the texts of a request."""

    request: Any = None
    """The whole request; known once the source is initialised."""


class RequestProcessor(Processor):
    """Answers the request whose texts it receives."""

    request_source: RequestSource | None = None
    """Where the rest of the request is; set by the reactor before the flow starts."""

    def drain(self) -> None:
        """The flow is to end in good order: what has been answered is enough. From any thread."""
