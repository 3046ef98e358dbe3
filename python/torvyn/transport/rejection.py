"""Refusals: an error -> the status, the headers and the body that a client gets.

Our own routes answer `{"error": {code, message, hint?, retryable}}`, OpenAI's in OpenAI's shape.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from torvyn.errors import (
    BugError,
    ComponentError,
    DeadlineExceeded,
    Internal,
    InvalidInput,
    TorvynError,
    Unavailable,
)
from torvyn.protocol.openai.response_bodies import error_body
from torvyn.transport.public_error import public_error

logger = logging.getLogger("torvyn.transport")

_BY_CODE: Final = {
    "engine.context-full": 400,
    "engine.model-missing": 502,
    "engine.request-running": 409,
    "engine.upstream-busy": 503,
    "engine.upstream-cut": 502,
    "engine.upstream-denied": 502,
    "engine.upstream-down": 502,
    "engine.upstream-error": 502,
    "engine.upstream-failed": 502,
    "engine.upstream-garbage": 502,
    "engine.upstream-refused": 400,
    "engine.upstream-slow": 504,
}
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class Rejection(InvalidInput):
    """A request that is not taken, and the status that says so."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.status = status
        self.headers = dict(headers or {})


def busy(retry_after_s: int = 1) -> Rejection:
    return Rejection(
        429,
        "transport.busy",
        "as many answers are being made as this server makes at a time",
        hint="ask again later; `max_streams` of `[serve]` is the limit",
        headers={"retry-after": str(retry_after_s)},
    )


def shutting_down() -> Rejection:
    message = "the server is shutting down"
    return Rejection(503, "transport.shutting-down", message, headers={"retry-after": "5"})


def unknown_stream() -> Rejection:
    message = "there is no stream of that id; it may have ended, or is not kept"
    hint = "`stateful` answers are kept for a while"
    return Rejection(404, "transport.stream-unknown", message, hint=hint)


def unknown_flow() -> Rejection:
    message = "no answer of that id is made now or was made lately"
    hint = "`/flows` lists them; the latest are kept"
    return Rejection(404, "transport.instance-unknown", message, hint=hint)


def bad_message(kind: str) -> Rejection:
    return Rejection(400, "transport.bad-message", f"what was sent is no {kind}")


def unread(after_s: float) -> Rejection:
    message = f"nothing was read for {after_s:g} s"
    hint = "`write_timeout` of `[serve]` is the limit"
    return Rejection(408, "transport.unread", message, hint=hint)


def client_error(error: Exception) -> TorvynError:
    """The error that clients are told of. Its cause is the error itself, where the log has more to
    say than a client may read."""
    if isinstance(error, TorvynError) and not isinstance(error, BugError):
        return public_error(error)
    failed = Internal("the server failed; its log says how", code="transport.failed")
    failed.__cause__ = error
    return failed


def log_failure(shown: TorvynError, raised: Exception, request_id: str) -> None:
    """The log keeps what the client was not shown."""
    if shown.__cause__ is not raised:
        return
    fields = {"event": "request.failed", "request_id": request_id, "code": shown.code}
    is_known = isinstance(raised, TorvynError) and not isinstance(raised, BugError)
    level = logging.WARNING if is_known else logging.ERROR
    logger.log(level, "request %s failed", request_id, exc_info=raised, extra=fields)


def status_of(error: TorvynError) -> int:
    if isinstance(error, Rejection):
        return error.status
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    if isinstance(error, InvalidInput):
        return 400
    if isinstance(error, Unavailable):
        return 503
    return 504 if isinstance(error, DeadlineExceeded) else 500


def is_retryable(error: TorvynError) -> bool:
    if isinstance(error, Rejection):
        return error.status in (408, 429, 503)
    return isinstance(error, ComponentError) and isinstance(error, (Unavailable, DeadlineExceeded))


def torvyn_error_body(error: TorvynError, message: str) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": message}
    if error.hint:
        body["hint"] = error.hint
    return {"error": {**body, "retryable": is_retryable(error)}}


def openai_error_body(error: TorvynError, message: str) -> dict[str, Any]:
    status = status_of(error)
    kind = "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")
    code = "model_not_found" if error.code == "transport.flow-unknown" else error.code
    return error_body(code, message, kind)
