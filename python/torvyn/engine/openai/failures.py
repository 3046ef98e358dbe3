"""What goes wrong with an upstream, as typed errors.

The message of an error is for everybody, clients of a gateway among them: it never names an address
and repeats no library. What only the operator may know is a note on the error (a traceback shows
it) and goes to the log with the error. The key is in neither.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from torvyn.engine.upstream_text import for_clients, printable
from torvyn.errors import (
    ComponentError,
    DeadlineExceeded,
    Fatal,
    Internal,
    InvalidInput,
    MissingError,
    TorvynError,
    Unavailable,
)
from torvyn.protocol.frames import ErrorFrame

logger = logging.getLogger("torvyn.engine")
RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may be answered."""

Failed = TypeVar("Failed", bound=TorvynError)


@dataclass(frozen=True, slots=True)
class Upstream:
    """Who failed: what clients may call it, and what only the operator may know of it."""

    name: str = "the upstream"
    url: str = ""
    secret: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str | None:
        return urlsplit(self.url).hostname

    def public(self, words: str) -> str:
        """What of its words a client may read."""
        return for_clients(words, self.secret, self.host)

    def with_detail(self, error: Failed, detail: str) -> Failed:
        """The error with what only the operator may know."""
        place = urlsplit(self.url).netloc or self.name
        error.add_note(f"{place}: {printable(detail, self.secret) or 'no details'}")
        return error

    def refusal(self, status: int, body: str) -> TorvynError:
        """An answer with a status that is no success."""
        words = _message_of(body)
        error = self._refusal(status, self.public(words))
        return self.with_detail(error, f"answered {status}: {words}")

    def _refusal(self, status: int, words: str) -> TorvynError:
        if status in (401, 403):
            # Its words are about the operator's key.
            message = f"{self.name} does not accept the key of this engine ({status})"
            hint = "give `api_key`, or set the variable that `api_key_env` names"
            return Fatal(message, hint=hint, code="engine.upstream-denied")
        message = f"{self.name} answered {status}{f': {words}' if words else ''}"
        if status == 404:
            hint = "look at `base_url` and `model`; many upstreams list theirs at `/models`"
            return MissingError("engine.model-missing", message, hint=hint)
        if status in RETRIED:
            return Unavailable(message, code="engine.upstream-busy")
        if status >= 500:
            return Unavailable(message, code="engine.upstream-failed")
        if status < 400:
            hint = "it redirects, which is not followed; give the address it redirects to"
            return InvalidInput(message, hint=hint, code="engine.upstream-refused")
        return InvalidInput(message, code="engine.upstream-refused")

    def error_event(self, error: ErrorFrame) -> ComponentError:
        """An error that the upstream sent in the middle of its answer."""
        words, code = self.public(error.message), self.public(error.code)
        kind = Unavailable if error.retryable else Internal
        said = words or "it sent an error"
        message = f"{self.name} broke off: {said}{f' ({code})' if code else ''}"
        failed = kind(message, code="engine.upstream-error")
        return self.with_detail(failed, f"broke off: {error.message} ({error.code})")

    def bad_finish(self, index: int, reason: str) -> Internal:
        """A choice whose finish reason says that it failed."""
        said = self.public(reason) or "error"
        message = f"{self.name} ended choice {index} with the finish reason `{said}`"
        failed = Internal(message, code="engine.upstream-error")
        return self.with_detail(failed, f"finish reason {reason!r} of choice {index}")

    def garbage(self, what: str, detail: str = "", hint: str | None = None) -> Internal:
        failed = Internal(f"{self.name} sent {what}", hint=hint, code="engine.upstream-garbage")
        return self.with_detail(failed, f"sent {detail or what}")

    def truncation(self, detail: str) -> Internal:
        message = f"{self.name} ended before its answer did"
        return self.with_detail(Internal(message, code="engine.upstream-cut"), f"ended: {detail}")

    def missing_finish(self, choices: int, waiting: Sequence[int], begun: set[int]) -> Internal:
        """It said that this was all, and some choices never said why they ended."""
        missing = [index for index in waiting if index not in begun]
        hint = None
        if missing and len(missing) < choices:
            made = choices - len(missing)
            message = f"{self.name} made {made} of {choices} answers"
            hint = "it may not know `n`; ask for one answer at a time"
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
            hint=f"raise `{option}` if that is how long it takes",
            code="engine.upstream-slow",
        )
        return self.with_detail(failed, what)

    def decoding_failure(self, error: InvalidInput) -> Any:
        """What the decoder of the stream complains about, as the upstream's fault."""
        if error.code == "protocol.stream-cut":
            failed = self.truncation(error.message)
        else:
            limit = error.code in ("protocol.line-too-long", "protocol.event-too-large")
            hint = "raise `max_line_bytes` if its events are that long" if limit else None
            what = _GARBAGE.get(error.code, "what is no answer")
            failed = self.garbage(what, error.message, hint)
        failed.__cause__ = error
        return failed


_GARBAGE: Final = {
    "protocol.line-too-long": "a longer line than it may",
    "protocol.event-too-large": "a larger event than it may",
    "protocol.bad-chunk": "a chunk that no dialect of OpenAI has",
}


def log(error: TorvynError, request_id: str) -> None:
    """Tells the operator of an upstream's failure, with what clients do not get to see."""
    details: list[str] = getattr(error, "__notes__", [])
    if not details:
        return
    # What the upstream does not take is a mistake of the client, who is told so.
    level = logging.INFO if error.code == "engine.upstream-refused" else logging.WARNING
    logger.log(
        level,
        "request %s: %s: %s",
        request_id,
        error.message,
        "; ".join(details),
        extra={"event": "upstream.failure", "request_id": request_id, "code": error.code},
    )


def _message_of(body: str) -> str:
    """The message of an error body, or all of it."""
    try:
        told = json.loads(body)
        for name in ("error", "message", "detail"):
            if isinstance(told, dict) and told.get(name):
                told = told[name]
        return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body
