"""What goes wrong between a client and its server, as typed errors.

    ServerError                  reported by the server: code, message, hint, status
    +-- InvalidRequestError      the request is wrong; do not retry         (InvalidInput)
    +-- PermissionDeniedError    the API key is missing or not accepted     (Fatal)
    +-- ServerBusyError          the server cannot answer now; retry later  (Unavailable)
    +-- AnswerFailedError        the answer failed after it had started     (Unavailable)
    +-- RequestTimeoutError      the answer took too long                   (DeadlineExceeded)
    +-- InternalServerError      the server failed                          (Internal)

Text from a server is shortened and its control characters are escaped; an API key never appears.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from torvyn._io.backoff import retry_after_s
from torvyn._io.safe_text import escape_controls
from torvyn.errors import (
    ComponentError,
    DeadlineExceeded,
    Fatal,
    Internal,
    InvalidInput,
    Unavailable,
)
from torvyn.protocol.frames import ErrorFrame

_LONGEST_TEXT: Final = 500
_CODE: Final = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")


class ServerError(ComponentError):
    """A server reported an error, instead of an answer or in the middle of one."""

    status: int | None = None
    """The HTTP status; None when the answer had started, and over gRPC."""
    is_retryable: bool = False
    """The server itself says that a retry may help."""
    retry_after_s: float | None = None
    """How long the server asks you to wait; None if it does not say."""
    request_id: str | None = None
    """The id of the request in the server's log."""


class InvalidRequestError(ServerError, InvalidInput):
    """The request is invalid, or names something that does not exist. Retrying does not help."""


class PermissionDeniedError(ServerError, Fatal):
    """The API key is missing or not accepted."""


class ServerBusyError(ServerError, Unavailable):
    """The server cannot answer now; retry later."""


class AnswerFailedError(ServerError, Unavailable):
    """The answer failed after it had started, for a reason that may pass, such as an upstream that
    broke off. The same request may succeed."""


class RequestTimeoutError(ServerError, DeadlineExceeded):
    """The answer took longer than its time limit."""


class InternalServerError(ServerError, Internal):
    """The server failed."""


_BY_STATUS: Final[Mapping[int, type[ServerError]]] = {
    401: PermissionDeniedError,
    403: PermissionDeniedError,
    408: RequestTimeoutError,
    429: ServerBusyError,
    502: ServerBusyError,
    503: ServerBusyError,
    504: RequestTimeoutError,
}
_INPUT_CODES: Final = ("engine.request-invalid", "engine.context-full", "component.invalid-input")


def error_from_response(
    status: int, body: str, headers: Mapping[str, str], secret: str | None, server: str
) -> ServerError:
    """A response that is not a success, from a Torvyn server or from a proxy in front of it."""
    record = _error_record(body)
    code, hint = str(record.get("code") or ""), record.get("hint")
    message = sanitize(str(record.get("message") or ""), secret)
    if not _CODE.fullmatch(code):
        code = "client.refused"
        message = f"{server} answered {status}: {message or sanitize(body, secret) or '(no body)'}"
    kind = _BY_STATUS.get(status, InternalServerError if status >= 500 else InvalidRequestError)
    if record.get("retryable") is True and not issubclass(kind, RequestTimeoutError):
        kind = ServerBusyError
    elif record.get("retryable") is False and issubclass(kind, ServerBusyError):
        kind = InternalServerError
    error = kind(message, code=code, hint=sanitize(hint, secret) if isinstance(hint, str) else None)
    error.status = status
    error.is_retryable = record.get("retryable") is True
    error.retry_after_s = retry_after_s(headers.get("Retry-After"), headers.get("Date"))
    error.request_id = headers.get("X-Request-ID")
    return error


def error_from_record(record: Mapping[str, Any], secret: str | None) -> ServerError:
    """A rejection that arrived as a message on a channel, or as the status of a gRPC call."""
    code = str(record.get("code") or "")
    code = code if _CODE.fullmatch(code) else "client.refused"
    status, pause_s = record.get("status"), record.get("retry_after_s")
    kind: type[ServerError] = InvalidRequestError
    if record.get("retryable"):
        kind = ServerBusyError
    elif code.startswith("transport.key-"):
        kind = PermissionDeniedError
    elif code == "transport.failed" or (isinstance(status, int) and status >= 500):
        kind = InternalServerError
    hint = record.get("hint")
    message = sanitize(str(record.get("message") or ""), secret) or code
    error = kind(message, code=code, hint=sanitize(hint, secret) if isinstance(hint, str) else None)
    error.status = status if isinstance(status, int) else None
    error.retry_after_s = pause_s if isinstance(pause_s, int) else None
    error.is_retryable = record.get("retryable") is True
    return error


def error_from_frame(frame: ErrorFrame, secret: str | None = None) -> ServerError:
    code = frame.code if _CODE.fullmatch(frame.code) else "client.refused"
    kind: type[ServerError] = AnswerFailedError if frame.retryable else InternalServerError
    if code == "transport.shutting-down":
        kind = ServerBusyError
    elif code in _INPUT_CODES:
        kind = InvalidRequestError
    elif code.endswith("-exceeded") or code == "transport.deadline":
        kind = RequestTimeoutError
    return kind(sanitize(frame.message, secret) or code, code=code)


def _error_record(body: str) -> dict[str, Any]:
    """The `error` object of a body, Torvyn's or OpenAI's; empty when it has none."""
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    error = record.get("error") if isinstance(record, dict) else None
    return error if isinstance(error, dict) else {}


def sanitize(text: str, secret: str | None = None) -> str:
    """Text from a server as one short line, without control characters and without the key."""
    if secret:
        text = text.replace(secret, "***")
    text = " ".join(text[: 4 * _LONGEST_TEXT].split())
    return escape_controls(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "...")


def reason(error: Exception, secret: str | None = None) -> str:
    """What an exception of a library says, or its class if it says nothing."""
    return sanitize(str(error), secret) or type(error).__name__


# Errors that the client itself finds


def unreachable(why: str, server: str) -> Unavailable:
    hint = "check that it is running; `torvyn serve` prints its address"
    if "certificate" in why:
        hint = "pass the file of certificates to trust as `ca`"
    message = f"{server} cannot be reached: {sanitize(why)}"
    return Unavailable(message, code="client.unreachable", hint=hint)


def connection_lost(why: str, server: str, hint: str | None = None) -> Unavailable:
    message = f"lost the connection to {server} before the answer ended: {why}"
    return Unavailable(message, code="client.cut", hint=hint)


def invalid_response(what: str, server: str) -> Internal:
    hint = "check that it is a Torvyn server; `torvyn serve` prints its address"
    return Internal(f"{server} sent {what}", code="client.garbage", hint=hint)


def bad_option(message: str, hint: str | None = None) -> InvalidInput:
    return InvalidInput(message, code="client.bad-option", hint=hint)


def already_read() -> InvalidInput:
    hint = "keep its frames in a list, or read a stateful stream again with `client.resume(id)`"
    message = "the stream has already been read"
    return InvalidInput(message, code="client.already-read", hint=hint)


def not_begun() -> InvalidInput:
    hint = "enter it (`with client.stream(...) as stream`), or read its first frame"
    return InvalidInput("the stream has not started", code="client.not-begun", hint=hint)


def client_closed() -> InvalidInput:
    return InvalidInput("the client is closed", code="client.closed")


def would_block() -> InvalidInput:
    message = "the sync client was called on its own event loop, which it would block"
    return InvalidInput(message, code="client.would-block", hint="use `AsyncClient`")


def unsupported(what: str, where: str, hint: str) -> InvalidInput:
    message = f"{what} is not possible {where}"
    return InvalidInput(message, code="client.unsupported", hint=hint)
