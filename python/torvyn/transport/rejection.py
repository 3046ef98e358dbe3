"""Rejections: an error -> the status, the headers and the body that a client gets.

Torvyn's own routes answer `{"error": {code, message, hint?, retryable}}`; OpenAI's routes answer in
OpenAI's shape.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from torvyn._observe.logs import Redactor
from torvyn.errors import BugError, Internal, InvalidInput, TorvynError
from torvyn.protocol.openai.response_bodies import error_body
from torvyn.transport import status_table
from torvyn.transport.public_error import public_error
from torvyn.transport.status_table import Row

logger = logging.getLogger("torvyn.transport")

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_OPENAI_CODES: Final = {
    (400, "engine.context-full"): "context_length_exceeded",
    (404, "engine.model-missing"): "model_not_found",
    (404, "transport.flow-unknown"): "model_not_found",
}
"""Those that programs look for."""


class Rejection(InvalidInput):
    """A request that was not accepted, with its HTTP status."""

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
        "the server is already running the maximum number of answers",
        hint="try again later; `max_streams` of `[serve]` is the limit",
        headers={"retry-after": str(retry_after_s)},
    )


def too_many_sessions(count: int, whose: str = "the server") -> Rejection:
    return Rejection(
        429,
        "session.too-many",
        f"{whose} keeps {count} stateful answers, which is its limit, and none has ended",
        hint="try again later or without `stateful`; `max_sessions` of `[serve]` is the limit",
        headers={"retry-after": "1"},
    )


def session_memory_full(limit_bytes: int, whose: str = "the server") -> Rejection:
    return Rejection(
        429,
        "session.memory-full",
        f"stateful answers of {whose} keep {limit_bytes / 2**20:.3g} MiB that their clients have "
        "not read, which is the limit",
        hint="try again later or without `stateful`; `session_memory` of `[serve]` is the limit",
        headers={"retry-after": "1"},
    )


SHARE_FULL: Final = "session.share-full"


def share_full(share_bytes: int) -> Rejection:
    return Rejection(
        429,
        SHARE_FULL,
        f"the stateful answers of this tenant take {share_bytes / 2**20:.3g} MiB of the session "
        "store, which is its share",
        hint="try again later or without `stateful`, or delete answers; `session_share` and "
        "`session_room` of `[serve]` set the share",
        headers={"retry-after": "1"},
    )


def prompt_too_large(size_bytes: int, limit_bytes: int, limit: str) -> Rejection:
    return Rejection(
        413,
        "session.prompt-too-large",
        f"the request takes {size_bytes:,} bytes in the session store, and {limit} allows "
        f"{limit_bytes:,}",
        hint="send it without `stateful`: then it needs no store, and cannot be resumed; or send "
        "less",
    )


def shutting_down() -> Rejection:
    message = "the server is shutting down"
    return Rejection(503, "transport.shutting-down", message, headers={"retry-after": "5"})


def unknown_stream() -> Rejection:
    message = "no stream has that id; it may have ended"
    hint = "only `stateful` streams are kept after their end, for a while"
    return Rejection(404, "transport.stream-unknown", message, hint=hint)


def unknown_flow() -> Rejection:
    message = "no answer with that id runs or ended recently"
    hint = "`/flows` lists them"
    return Rejection(404, "transport.instance-unknown", message, hint=hint)


def bad_message(kind: str) -> Rejection:
    return Rejection(400, "transport.bad-message", f"the message is not a valid {kind}")


def service_unknown(name: str) -> Rejection:
    message = f"the service {name[:100]!r} does not exist"
    hint = "`torvyn.v1.Inference`, or an empty name for the whole server"
    return Rejection(404, "transport.service-unknown", message, hint=hint)


def client_stalled(after_s: float) -> Rejection:
    message = f"the client read nothing for {after_s:g} s"
    hint = "`write_timeout` of `[serve]` is the limit"
    return Rejection(408, "transport.unread", message, hint=hint)


def client_error(error: Exception) -> TorvynError:
    """The error as a client may see it. If that hides something, its cause is the error itself,
    for the log."""
    if isinstance(error, TorvynError) and not isinstance(error, BugError):
        return public_error(error)
    failed = Internal("the server failed; see its log", code="transport.failed")
    failed.__cause__ = error
    return failed


def log_failure(error: TorvynError, raised: Exception, request_id: str) -> None:
    """Logs what the client may not see."""
    if error.__cause__ is not raised:
        return
    fields = {"event": "request.failed", "request_id": request_id, "code": error.code}
    if not isinstance(raised, TorvynError) or isinstance(raised, BugError):
        logger.error("request %s failed", request_id, exc_info=raised, extra=fields)
    elif not raised.is_logged:
        # Without a cause, a traceback would only show where Torvyn itself has raised it.
        cause = raised if raised.__cause__ is not None else None
        message = "request %s failed: %s"
        logger.warning(message, request_id, raised.message, exc_info=cause, extra=fields)


class ErrorReporter:
    """Turns what a request raised into what its client may see, and logs the rest."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._redactor = Redactor(secrets)

    def report(self, raised: Exception, request_id: str) -> tuple[TorvynError, str]:
        """The error for the client, and its message without secrets."""
        error = client_error(raised)
        log_failure(error, raised, request_id)
        return error, self._redactor.text(error.message)


def row_of(error: TorvynError) -> Row:
    """What the table of statuses says about it."""
    if isinstance(error, Rejection):
        return status_table.row_of_rejection(error.status)
    return status_table.row_of(error)


def is_retryable(error: TorvynError) -> bool:
    return row_of(error).is_retryable


def headers_of(error: TorvynError) -> Mapping[str, str]:
    """The headers of its response. If OpenAI's clients would do otherwise by themselves, one says
    whether to retry."""
    row = row_of(error)
    if isinstance(error, Rejection):
        headers: Mapping[str, str] = error.headers
    else:
        headers = {} if error.reply is None else error.reply.headers
    if row.is_retryable == status_table.is_retried_by_default(row.status):
        return headers
    return {**headers, status_table.SHOULD_RETRY: "true" if row.is_retryable else "false"}


def limits_of(error: TorvynError) -> dict[str, str]:
    """The rate limits of the upstream, for a message that has no headers. How long to wait and
    whether to retry are members of their own."""
    headers: Mapping[str, str] = {} if error.reply is None else error.reply.headers
    own = ("retry-after", status_table.SHOULD_RETRY)
    return {name: value for name, value in headers.items() if name not in own}


def torvyn_error_body(error: TorvynError, message: str) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": message}
    if error.hint:
        body["hint"] = error.hint
    if error.reply is not None and error.reply.code:
        body["upstream_code"] = error.reply.code
    return {"error": {**body, "retryable": is_retryable(error)}}


def openai_error_body(error: TorvynError, message: str) -> dict[str, Any]:
    status = row_of(error).status
    kind = "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")
    return error_body(openai_code(error), message, kind)


def openai_code(error: TorvynError) -> str:
    """Its code in OpenAI's dialects, as a status and as an event: that of the upstream, or the one
    that programs look for."""
    if error.reply is not None and error.reply.code:
        return error.reply.code
    return _OPENAI_CODES.get((row_of(error).status, error.code), error.code)
