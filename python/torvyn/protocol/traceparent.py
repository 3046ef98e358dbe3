"""The W3C `traceparent` header: the trace and the span of a request.

A valid header is continued, an invalid one is ignored. Every request has its own span, which is in
the response and is the parent of requests to upstreams.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import Final, NamedTuple

_HEADER: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MOST: Final = 512
_SAMPLED: Final = 1
_NO_SPAN: Final = "0" * 16


class Trace(NamedTuple):
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
    if (parent := _parse(traceparent)) is not None:
        trace_id, parent_id, flags = parent
        return Trace(trace_id, _new(8), parent_id, bool(flags & _SAMPLED))
    ids = _new(24)
    trace_id, span_id = ids[:32], ids[32:]
    # Decided by the id, so that every process decides alike.
    is_sampled = sample_rate > 0 and int(trace_id[16:], 16) < sample_rate * 2**64
    return Trace(trace_id, span_id, "", is_sampled)


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
    """Random bytes as hexadecimal digits, the last 16 of which are a span id that is not zero."""
    while (ids := os.urandom(size).hex()).endswith(_NO_SPAN):
        pass
    return ids
