"""What a response means for the elements of its request. Pure.

An answer that finds fault with the request is an error of its elements. A server that does not know
us, or not the path, says nothing about them: they are kept and sent again.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

from torvyn.protocol.retry_after import retry_after_s

OVERLOADED: Final = frozenset({429, 503})
_RETRIED: Final = frozenset({401, 403, 404, 405, 407, 408, 425, 429})
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
        return self.status in _RETRIED or self.status >= 500 or self.status < 200

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
        text = " ".join(self.text.split())[:_MAX_TEXT]
        return f"the server answered {self.status}{phrase}" + (f": {text}" if text else "")
