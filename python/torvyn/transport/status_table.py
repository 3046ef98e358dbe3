"""One table for every transport: a failure -> its HTTP status, its gRPC code, and whether a retry
may help. A whole answer has them, a streamed one of which nothing was sent, and a rejected request.

What an upstream says about the request itself, or about its own load, keeps its status; what only
the operator of this server can repair is a 502 that no client retries.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from torvyn.errors import DeadlineExceeded, InvalidInput, TorvynError, Unavailable, UpstreamReply


class Code(IntEnum):
    """The gRPC codes that this server uses."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class Row(NamedTuple):
    status: int
    code: Code
    is_retryable: bool


_BROKEN: Final = Row(502, Code.INTERNAL, False)
"""Somebody has to repair it first."""
_PASSING: Final = Row(502, Code.UNAVAILABLE, True)
_SLOW: Final = Row(504, Code.DEADLINE_EXCEEDED, True)
_INVALID: Final = Row(400, Code.INVALID_ARGUMENT, False)

BY_ERROR: Final = {
    "engine.context-full": _INVALID,
    "engine.model-missing": _BROKEN,
    "engine.request-running": Row(409, Code.ALREADY_EXISTS, False),
    "engine.upstream-busy": _PASSING,
    "engine.upstream-cut": _PASSING,
    "engine.upstream-denied": _BROKEN,
    "engine.upstream-down": _PASSING,
    "engine.upstream-error": _BROKEN,
    "engine.upstream-failed": _BROKEN,
    "engine.upstream-garbage": _BROKEN,
    "engine.upstream-redirect": _BROKEN,
    "engine.upstream-refused": _INVALID,
    "engine.upstream-slow": _SLOW,
}
"""By the code of the error."""

BY_UPSTREAM: Final = {
    404: Row(404, Code.NOT_FOUND, False),
    408: Row(408, Code.DEADLINE_EXCEEDED, True),
    409: Row(409, Code.ABORTED, True),
    413: Row(413, Code.RESOURCE_EXHAUSTED, False),
    422: Row(422, Code.INVALID_ARGUMENT, False),
    429: Row(429, Code.RESOURCE_EXHAUSTED, True),
    503: Row(503, Code.UNAVAILABLE, True),
    504: _SLOW,
    529: Row(503, Code.UNAVAILABLE, True),
}
"""By the status of the upstream, if the error has its reply: these count more."""

_BY_CLASS: Final = (
    (InvalidInput, _INVALID),
    (Unavailable, Row(503, Code.UNAVAILABLE, True)),
    (DeadlineExceeded, _SLOW),
)
_FAILED: Final = Row(500, Code.INTERNAL, False)

REJECTIONS: Final = {
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    408: Code.DEADLINE_EXCEEDED,
    409: Code.ALREADY_EXISTS,
    410: Code.FAILED_PRECONDITION,
    413: Code.RESOURCE_EXHAUSTED,
    421: Code.PERMISSION_DENIED,
    429: Code.RESOURCE_EXHAUSTED,
    501: Code.UNIMPLEMENTED,
    503: Code.UNAVAILABLE,
}
"""The gRPC codes of requests that this server itself rejects, by the status; others are invalid
arguments."""
_RETRIED_REJECTIONS: Final = (408, 429, 503)
SHOULD_RETRY: Final = "x-should-retry"
"""The header by which OpenAI's clients are told whether to retry."""


def row_of_rejection(status: int) -> Row:
    code = REJECTIONS.get(status, Code.INVALID_ARGUMENT)
    return Row(status, code, status in _RETRIED_REJECTIONS)


def row_of(error: TorvynError) -> Row:
    row = _upstream_row(error.reply) or BY_ERROR.get(error.code)
    if row is None:
        row = next((row for kind, row in _BY_CLASS if isinstance(error, kind)), _FAILED)
    advice = None if error.reply is None else error.reply.headers.get(SHOULD_RETRY)
    return row if advice is None else row._replace(is_retryable=advice == "true")


def _upstream_row(reply: UpstreamReply | None) -> Row | None:
    return None if reply is None else BY_UPSTREAM.get(reply.status)


def is_retried_by_default(status: int) -> bool:
    """What OpenAI's clients do without the header."""
    return status in (408, 409, 429) or status >= 500
