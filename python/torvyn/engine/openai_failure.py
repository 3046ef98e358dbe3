"""What goes wrong with an upstream, as typed errors. Never holds a key; what an upstream says is
shortened and its control characters are shown, not sent to the terminal."""

from __future__ import annotations

import json
from typing import Any, Final

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
from torvyn.protocol.frames import Error

_SHOWN: Final = 300
RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may be answered."""


def shown(text: str, secret: str | None = None) -> str:
    """What an upstream said, fit for one line."""
    if secret:
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def refused(status: int, body: str, secret: str | None, where: str) -> TorvynError:
    """An answer with a status that is no success."""
    message = f"{where} answered {status}: {shown(_said(body), secret) or 'nothing else'}"
    if status in (401, 403):
        hint = "give `api_key`, or set the variable that `api_key_env` names"
        return Fatal(message, hint=hint, code="engine.upstream-denied")
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


def _said(body: str) -> str:
    """The message of an error body, or all of it."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return body
    for name in ("error", "message", "detail"):
        if isinstance(told, dict) and told.get(name):
            told = told[name]
    return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)


def told(error: Error, secret: str | None, where: str) -> ComponentError:
    """An error that the upstream sent in the middle of its answer."""
    message = f"{where} broke off: {shown(error.message, secret)} ({shown(error.code, secret)})"
    kind = Unavailable if error.retryable else Internal
    return kind(message, code="engine.upstream-error")


def garbled(what: str, where: str) -> Internal:
    return Internal(f"{where} sent {what}", code="engine.upstream-garbage")


def cut(why: str, where: str) -> Internal:
    message = f"{where} ended before its answer did: {why}"
    return Internal(message, code="engine.upstream-cut")


def down(error: BaseException, where: str) -> Unavailable:
    why = shown(str(error)) or type(error).__name__
    return Unavailable(f"{where} cannot be reached: {why}", code="engine.upstream-down")


def slow(what: str, seconds: float, option: str, where: str) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{where} {what} within {seconds:g} s",
        hint=f"raise `{option}` if that is how long it takes",
        code="engine.upstream-slow",
    )


def from_decoder(error: InvalidInput, where: str) -> Any:
    """What the decoder of the stream complains about, as the upstream's fault."""
    maker = cut if error.code == "protocol.stream-cut" else garbled
    failed = maker(error.message, where)
    failed.__cause__ = error
    return failed
