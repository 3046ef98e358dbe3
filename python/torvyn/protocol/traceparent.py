"""`traceparent`: where a request stands in a trace, as W3C spells it in a header.

What comes from outside is taken over when it is right and ignored when it is not. Every request
has a span of its own, which answers name and upstreams are given as their parent.
"""

from __future__ import annotations

import re
import secrets
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
    """The span that asked; empty at the root."""
    is_sampled: bool = False
    """Whoever takes part in the trace should tell of it."""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"


CURRENT: Final[ContextVar[Trace | None]] = ContextVar("torvyn_trace", default=None)
"""The span of the request that this task works on."""


def begin(traceparent: str | None = None, sample_rate: float = 0.0) -> Trace:
    """A span of our own below the one that the header names. Without one it begins a trace, of
    which `sample_rate` is the share that is sampled."""
    span_id = _new(8)
    if (found := _parsed(traceparent)) is not None:
        trace_id, parent_id, flags = found
        return Trace(trace_id, span_id, parent_id, bool(flags & _SAMPLED))
    trace_id = _new(16)
    # Decided by the id, so that all who see it decide alike.
    return Trace(trace_id, span_id, is_sampled=int(trace_id[16:], 16) < sample_rate * 2**64)


def _parsed(header: str | None) -> tuple[str, str, int] | None:
    if header is None or len(header) > _MOST:
        return None
    found = _HEADER.fullmatch(header.strip())
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    # A later version may say more; this one may not.
    if version == "ff" or (version == "00" and more is not None):
        return None
    if not trace_id.strip("0") or not parent_id.strip("0"):
        return None
    return trace_id, parent_id, int(flags, 16)


def _new(size: int) -> str:
    """Random and not all zero."""
    while not (made := secrets.token_hex(size)).strip("0"):
        pass
    return made
