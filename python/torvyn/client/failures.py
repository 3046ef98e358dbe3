"""What goes wrong between a client and its server, as typed errors.

    ServerError      the server said so: code, message, hint, status, retry_after_s
    +-- Refused      the request is wrong; asking again gives the same      (InvalidInput)
    +-- Denied       no key, or the wrong one                               (Fatal)
    +-- Busy         not now; later may do                                  (Unavailable)
    +-- TooSlow      it took too long                                       (DeadlineExceeded)
    +-- Failed       the server's own fault                                 (Internal)

What a server says is shortened, its control characters are shown, and a key is never repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from torvyn.errors import (
    ComponentError,
    DeadlineExceeded,
    Fatal,
    Internal,
    InvalidInput,
    Unavailable,
)
from torvyn.protocol.frames import ErrorFrame
from torvyn.text.control_characters import escape_controls

_SHOWN: Final = 500
_CODE: Final = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")


class ServerError(ComponentError):
    """What a server answered instead of frames, or said in the middle of them."""

    status: int | None = None
    """The HTTP status; None when an answer had begun."""
    retry_after_s: float | None = None
    """How long the server wants to be left alone, if it said so."""
    request_id: str | None = None
    """What the server's log calls the request."""


class Refused(ServerError, InvalidInput):
    """The request is wrong, or what it is about is not there: asking again gives the same."""


class Denied(ServerError, Fatal):
    """The server wants a key, or another one."""


class Busy(ServerError, Unavailable):
    """Not now; later may do."""


class TooSlow(ServerError, DeadlineExceeded):
    """It took longer than it may."""


class Failed(ServerError, Internal):
    """The server's own fault."""


_BY_STATUS: Final[Mapping[int, type[ServerError]]] = {
    401: Denied,
    403: Denied,
    408: TooSlow,
    429: Busy,
    502: Busy,
    503: Busy,
    504: TooSlow,
}
_INPUT: Final = ("engine.request-invalid", "engine.context-full", "component.invalid-input")


def refused(
    status: int, body: str, headers: Mapping[str, str], secret: str | None, where: str
) -> ServerError:
    """An answer with a status that is no success: ours, or that of something in between."""
    said = _said(body)
    code, hint = str(said.get("code") or ""), said.get("hint")
    message = shown(str(said.get("message") or ""), secret)
    if not _CODE.fullmatch(code):
        code = "client.refused"
        message = f"{where} answered {status}: {message or shown(body, secret) or 'nothing else'}"
    kind = _BY_STATUS.get(status, Failed if status >= 500 else Refused)
    error = kind(message, code=code, hint=shown(hint, secret) if isinstance(hint, str) else None)
    error.status = status
    error.retry_after_s = retry_after_s(headers.get("Retry-After"))
    error.request_id = headers.get("X-Request-ID")
    return error


def refused_by(record: Mapping[str, Any], secret: str | None) -> ServerError:
    """A refusal that came as a message, without a status."""
    code = str(record.get("code") or "")
    code = code if _CODE.fullmatch(code) else "client.refused"
    kind: type[ServerError] = Refused
    if record.get("retryable"):
        kind = Busy
    elif code.startswith("transport.key-"):
        kind = Denied
    elif code == "transport.failed":
        kind = Failed
    hint = record.get("hint")
    message = shown(str(record.get("message") or ""), secret) or code
    return kind(message, code=code, hint=shown(hint, secret) if isinstance(hint, str) else None)


def told(error: ErrorFrame, secret: str | None = None) -> ServerError:
    """An error frame as the exception that it is."""
    code = error.code if _CODE.fullmatch(error.code) else "client.refused"
    kind: type[ServerError] = Busy if error.retryable else Failed
    if code in _INPUT:
        kind = Refused
    elif code.endswith("-exceeded") or code == "transport.deadline":
        kind = TooSlow
    return kind(shown(error.message, secret) or code, code=code)


def _said(body: str) -> dict[str, Any]:
    """The error of a body, ours or OpenAI's; nothing when it is no such body."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    found = found.get("error") if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def shown(text: str, secret: str | None = None) -> str:
    """What a server said, fit for one line."""
    if secret:
        text = text.replace(secret, "***")
    text = " ".join(text[: 4 * _SHOWN].split())
    return escape_controls(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def retry_after_s(header: str | None) -> float | None:
    """Seconds; a date is not understood, and then the usual pause is made."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


# Of our own making


def unreachable(why: str, where: str) -> Unavailable:
    hint = "is it running? `torvyn serve` prints its address"
    if "certificate" in why:
        hint = "name the file of certificates to trust: `ca`"
    message = f"{where} cannot be reached: {shown(why)}"
    return Unavailable(message, code="client.unreachable", hint=hint)


def cut(why: str, where: str, hint: str | None = None) -> Unavailable:
    message = f"{where} was cut off before the answer ended: {why}"
    return Unavailable(message, code="client.cut", hint=hint)


def garbage(what: str, where: str) -> Internal:
    hint = "is it torvyn's? `torvyn serve` prints its address"
    return Internal(f"{where} sent {what}", code="client.garbage", hint=hint)


def bad_option(message: str, hint: str | None = None) -> InvalidInput:
    return InvalidInput(message, code="client.bad-option", hint=hint)


def already_read() -> InvalidInput:
    hint = "keep its frames in a list, or call `client.resume(id)` for a stateful one"
    return InvalidInput("the stream was read before", code="client.already-read", hint=hint)


def not_begun() -> InvalidInput:
    hint = "enter it (`with client.stream(...) as stream`), or read its first frame"
    return InvalidInput("the stream has not begun", code="client.not-begun", hint=hint)


def closed() -> InvalidInput:
    return InvalidInput("the client was closed", code="client.closed")


def would_block() -> InvalidInput:
    message = "a sync client here would wait for the loop that it blocks"
    return InvalidInput(message, code="client.would-block", hint="use `AsyncClient`")


def unsupported(what: str, how: str, hint: str) -> InvalidInput:
    message = f"{what} is not possible {how}"
    return InvalidInput(message, code="client.unsupported", hint=hint)
