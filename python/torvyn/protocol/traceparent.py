"""The W3C `traceparent` header: the trace and the span of a request.

A valid header is continued, an invalid one is ignored. Every request has its own span, which is in
the response and is the parent of requests to upstreams.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

_HEADER: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MOST: Final = 512
_SAMPLED: Final = 1


@dataclass(frozen=True, slots=True)
class Trace:
    """A span, and the trace it belongs to."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    """The span of the caller; empty at the root."""
    is_sampled: bool = False
    """Whether the spans of the trace are exported."""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"


CURRENT: Final[ContextVar[Trace | None]] = ContextVar("torvyn_trace", default=None)
"""The span of the request that this task works on."""


def begin(traceparent: str | None = None, sample_rate: float = 0.0) -> Trace:
    """A new span, as a child of the header's span. Without a valid header it starts a trace;
    `sample_rate` is the share of new traces that are sampled."""
    span_id = _new(8)
    if (parent := _parse(traceparent)) is not None:
        trace_id, parent_id, flags = parent
        return Trace(trace_id, span_id, parent_id, bool(flags & _SAMPLED))
    trace_id = _new(16)
    # Decided by the id, so that every process decides alike.
    return Trace(trace_id, span_id, is_sampled=int(trace_id[16:], 16) < sample_rate * 2**64)


def _parse(header: str | None) -> tuple[str, str, int] | None:
    if header is None or len(header) > _MOST:
        return None
    match = _HEADER.fullmatch(header.strip())
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    # Only later versions may have more fields.
    if version == "ff" or (version == "00" and more is not None):
        return None
    if not trace_id.strip("0") or not parent_id.strip("0"):
        return None
    return trace_id, parent_id, int(flags, 16)


def _new(size: int) -> str:
    """A random id that is not all zero."""
    while not (id := os.urandom(size).hex()).strip("0"):
        pass
    return id
