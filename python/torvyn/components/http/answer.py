"""What a response means for the elements of its request. Pure.

An answer that finds fault with the request refuses its elements for good. A server that rejects
us, redirects us or does not know the path says nothing about them: they are kept and sent again,
because a token that has expired must not cost data. This is the one place that decides it, but for
404, of which the uplink knows whether the path has worked before.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

from torvyn._io.backoff import retry_after_s

OVERLOADED: Final = frozenset({429, 503})
_RETRIED: Final = frozenset({408, 425, 429})
_UNKNOWN_PATH: Final = 404
_REDIRECT_HINT: Final = "redirects are not followed: correct `url`"
_REJECTIONS: Final = {
    401: "the token may be missing or have expired: check `headers`, and restart the flow if you "
    "change them",
    403: "check what the token in `headers` is allowed to do",
    404: "check the path of `url`",
    405: "check `method` and the path of `url`",
    407: "a proxy on the way asks for credentials: check `url`",
}
"""Answers that are about us and not about the elements, and what to do."""
_MAX_TEXT: Final = 200


class Response(NamedTuple):
    status: int
    retry_after: str | None
    date: str | None
    text: str

    @property
    def is_delivered(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_retried(self) -> bool:
        """Whether the same request may succeed later."""
        is_temporary = self.status in _RETRIED or self.status >= 500 or self.status < 200
        return is_temporary or self.rejection_hint is not None

    @property
    def rejection_hint(self) -> str | None:
        """What to do if the server rejects us; None if it does not."""
        if 300 <= self.status < 400:
            return _REDIRECT_HINT
        return _REJECTIONS.get(self.status)

    @property
    def is_unknown_path(self) -> bool:
        """Whether the server does not know what the request names: its path, or its elements."""
        return self.status == _UNKNOWN_PATH

    @property
    def is_overloaded(self) -> bool:
        return self.status in OVERLOADED

    @property
    def delay_s(self) -> float:
        """What the server asks for."""
        return retry_after_s(self.retry_after, self.date) or 0.0

    @property
    def reason(self) -> str:
        """`the server answered 503 Service Unavailable: maintenance`"""
        try:
            phrase = f" {HTTPStatus(self.status).phrase}"
        except ValueError:
            phrase = ""
        # A page for browsers says no more than the status.
        is_page = self.text.lstrip().startswith("<")
        text = "" if is_page else " ".join(self.text.split())[:_MAX_TEXT]
        return f"the server answered {self.status}{phrase}" + (f": {text}" if text else "")
