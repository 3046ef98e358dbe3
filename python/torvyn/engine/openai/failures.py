"""Typed errors for failures of an upstream.

Everybody may see the message of an error, also the clients of a gateway: it contains no address and
no text of a library. Details for the operator are a note on the error, which tracebacks show, and
go to the log. The API key is in neither.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from torvyn._io.backoff import asked_pause_s
from torvyn.engine.upstream_text import for_clients, printable
from torvyn.errors import (
    DeadlineExceeded,
    Fatal,
    Internal,
    InvalidInput,
    MissingError,
    TorvynError,
    Unavailable,
    UpstreamReply,
)
from torvyn.protocol.frames import ErrorFrame
from torvyn.protocol.openai.chunk_fields import RETRIED

logger = logging.getLogger("torvyn.engine")
_LIMITS: Final = re.compile(r"(?:x-)?ratelimit(?:-[a-z0-9-]{1,40})?|retry-after-ms|x-should-retry")
_HEADER: Final = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_LIMITS: Final = 32

Failed = TypeVar("Failed", bound=TorvynError)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The upstream: its name for clients, and its address and key for the operator."""

    name: str = "the upstream"
    url: str = ""
    secret: str | None = field(default=None, repr=False)
    hides_not_found: bool = False
    """Clients do not hear that it knows no such model."""

    @property
    def host(self) -> str | None:
        return urlsplit(self.url).hostname

    def public(self, text: str) -> str:
        """The part of its text that a client may read."""
        return for_clients(text, self.secret, self.host)

    def with_detail(self, error: Failed, detail: str) -> Failed:
        """Adds a note for the operator to the error."""
        place = urlsplit(self.url).netloc or self.name
        error.add_note(f"{place}: {printable(detail, self.secret) or 'no details'}")
        return error

    def rejection(
        self, status: int, body: str, headers: Mapping[str, str] | None = None
    ) -> TorvynError:
        """A response with another status than 200."""
        text = _message_of(body)
        public = self.public(text)
        message = f"{self.name} answered {status}{f': {public}' if public else ''}"
        error = self._refusal(status, _code_of(body), message)
        if error.reply is not None:
            error.reply = replace(error.reply, headers=limits_of(headers or {}))
        return self.with_detail(error, f"answered {status}: {text}")

    def _refusal(self, status: int, code: str | None, message: str) -> TorvynError:
        """The error for a status, and for an error that names it."""
        error = self._error_of(status, code, message)
        if error.code in _CONCERNS_CLIENTS and not (status == 404 and self.hides_not_found):
            error.reply = UpstreamReply(status, code)
        return error

    def _error_of(self, status: int, code: str | None, message: str) -> TorvynError:
        if status in (401, 402, 403):
            # Its text is about the operator's key, or about who pays for it.
            message = f"{self.name} does not accept the key of this engine ({status})"
            hint = "set `api_key`, or the environment variable that `api_key_env` names"
            return Fatal(message, hint=hint, code="engine.upstream-denied")
        if status == 404:
            hint = "check `base_url` and `model`; many upstreams list their models at `/models`"
            return MissingError("engine.model-missing", message, hint=hint)
        if status in RETRIED:
            return Unavailable(message, code="engine.upstream-busy")
        if status >= 500:
            return Unavailable(message, code="engine.upstream-failed")
        if status < 300:
            return self.garbage(f"the status {status}")
        if status < 400:
            hint = "redirects are not followed; set `base_url` to the address it redirects to"
            message = f"{self.name} redirects requests ({status})"
            return Fatal(message, hint=hint, code="engine.upstream-redirect")
        is_too_long = code == "context_length_exceeded"
        kind = "engine.context-full" if is_too_long else "engine.upstream-refused"
        return InvalidInput(message, code=kind)

    def error_event(self, error: ErrorFrame) -> TorvynError:
        """An error that the upstream sent instead of its answer, or in the middle of it. If it
        names a status, it means what a response with that status does."""
        text, name = self.public(error.message), self.public(error.code)
        reason = text or "it sent an error"
        message = f"{self.name} broke off: {reason}{f' ({name})' if name else ''}"
        code = _told_code(error.code if error.code != "error" else None)
        if error.status is not None:
            failed = self._refusal(error.status, code, message)
        else:
            failed = Internal(message, code="engine.upstream-error")
            failed.reply = UpstreamReply(200, code)
        return self.with_detail(failed, f"broke off: {error.message} ({error.code})")

    def bad_finish(self, index: int, reason: str) -> Internal:
        """A choice whose finish reason says that it failed."""
        public = self.public(reason) or "error"
        message = f"{self.name} ended choice {index} with the finish reason `{public}`"
        failed = Internal(message, code="engine.upstream-error")
        return self.with_detail(failed, f"finish reason {reason!r} of choice {index}")

    def garbage(self, what: str, detail: str = "", hint: str | None = None) -> Internal:
        failed = Internal(f"{self.name} sent {what}", hint=hint, code="engine.upstream-garbage")
        return self.with_detail(failed, f"sent {detail or what}")

    def truncation(self, detail: str) -> Internal:
        message = f"{self.name} ended before its answer did"
        return self.with_detail(Internal(message, code="engine.upstream-cut"), f"ended: {detail}")

    def missing_finish(self, choices: int, waiting: Sequence[int], begun: set[int]) -> Internal:
        """The answer is over, but some choices have no finish reason."""
        missing = [index for index in waiting if index not in begun]
        hint = None
        if missing and len(missing) < choices:
            count = choices - len(missing)
            message = f"{self.name} generated {count} of {choices} answers"
            hint = "it may not support `n`; request one answer at a time"
        else:
            which = ", ".join(map(str, waiting))
            message = f"{self.name} ended choice {which} without a finish reason"
        failed = Internal(message, hint=hint, code="engine.upstream-cut")
        return self.with_detail(failed, f"no finish reason for choice {[*waiting]} of {choices}")

    def unreachable(self, error: BaseException) -> Unavailable:
        failed = Unavailable(f"{self.name} cannot be reached", code="engine.upstream-down")
        return self.with_detail(failed, f"{type(error).__name__}: {error}")

    def timeout(self, what: str, seconds: float, option: str) -> DeadlineExceeded:
        failed = DeadlineExceeded(
            f"{self.name} {what} within {seconds:g} s",
            hint=f"raise `{option}` if the upstream needs longer",
            code="engine.upstream-slow",
        )
        return self.with_detail(failed, what)

    def decoding_failure(self, error: InvalidInput) -> Any:
        """An error of the stream's decoder, as a failure of the upstream."""
        if error.code == "protocol.stream-cut":
            failed = self.truncation(error.message)
        else:
            limit = error.code in ("protocol.line-too-long", "protocol.event-too-large")
            hint = "raise `max_line_bytes` if its events are that long" if limit else None
            what = _GARBAGE.get(error.code, "a response that cannot be decoded")
            failed = self.garbage(what, error.message, hint)
        failed.__cause__ = error
        return failed


_CONCERNS_CLIENTS: Final = frozenset(
    {
        "engine.context-full",
        "engine.model-missing",
        "engine.upstream-busy",
        "engine.upstream-failed",
        "engine.upstream-refused",
    }
)
_GARBAGE: Final = {
    "protocol.line-too-long": "a line above the limit",
    "protocol.event-too-large": "an event above the limit",
    "protocol.bad-chunk": "a chunk that is not in an OpenAI dialect",
}


def log(error: TorvynError, request_id: str) -> None:
    """Logs the failure of an upstream with the details that clients do not see."""
    details: list[str] = getattr(error, "__notes__", [])
    if not details:
        return
    # A rejected request is the client's mistake, and the client gets the error.
    is_clients = error.code in ("engine.upstream-refused", "engine.context-full")
    level = logging.INFO if is_clients else logging.WARNING
    logger.log(
        level,
        "request %s: %s: %s",
        request_id,
        error.message,
        "; ".join(details),
        extra={"event": "upstream.failure", "request_id": request_id, "code": error.code},
    )
    error.is_logged = True


def _message_of(body: str) -> str:
    """The message of an error body, or all of it."""
    try:
        value = json.loads(body)
        for name in ("error", "message", "detail"):
            if isinstance(value, dict) and value.get(name):
                value = value[name]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body


def _code_of(body: str) -> str | None:
    """The code in an error body."""
    try:
        error = json.loads(body)["error"]
        return _told_code(error.get("code"))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


def _told_code(code: Any) -> str | None:
    """The code, if clients may hear it. Some upstreams repeat the status there."""
    is_code = isinstance(code, str) and _CODE.fullmatch(code) and not code.isdecimal()
    return code if is_code else None


def limits_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that say when to try again, and what the rate limits are."""
    names = [name for name in headers if _LIMITS.fullmatch(name)][:_MOST_LIMITS]
    limits = {name: headers[name] for name in names if _HEADER.fullmatch(headers[name])}
    if (pause_s := asked_pause_s(headers)) is not None:
        # In seconds, because a date would be one of the upstream's clock, and many clients know no
        # milliseconds.
        limits["retry-after"] = str(math.ceil(pause_s))
    return limits
