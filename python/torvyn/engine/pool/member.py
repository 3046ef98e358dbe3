"""One member of a pool: a server, its load and its health."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from torvyn.engine.openai.engine import OpenAI
from torvyn.engine.pool.breaker import Breaker

Outcome = Literal["done", "empty", "refused", "failed", "gone", "busy", "left"]
"""How a request ended at a member: answered; with an answer without content; the member would not
answer this request; failed; nothing answers there; the member has no room; or for a reason that
says nothing about the member."""
State = Literal["up", "down", "draining", "open", "half-open", "busy", "unknown"]
BUSY_PAUSE_S: Final = 0.5
"""How long a member that has no room gets no more requests."""
_NEW_SHARE: Final = 0.2
"""The weight of the latest answer in moving means."""


class Member:
    """`Members` owns it, and changes it under its lock."""

    def __init__(
        self,
        url: str,
        engine: OpenAI,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        key: str | None = None,
    ) -> None:
        self.url = url
        self.key = key
        self.name = urlsplit(url).netloc
        self.engine = engine
        self.limit = limit
        """The most requests at a time."""
        self.in_flight = 0
        self.is_draining = self.is_leaving = False
        """It gets no more requests; and it leaves the pool after the last one."""
        self.over = asyncio.Event()
        """It has left; of the background loop."""
        self.handle: Any = None
        """What its supplier knows it by."""
        self.is_up: bool | None = None
        """What the last health check found."""
        self.is_probed = False
        """A request finds out whether it works again."""
        self.first_text_s = 0.0
        """From the request to the first text, as a moving mean: with the same load, the member
        whose own queue is longer is slower."""
        self.useless_share = 0.0
        """How many of its answers are empty or refusals, as a moving mean. That may be the fault of
        the requests: it counts only in comparison with other members."""
        self.outcomes: Counter[Outcome] = Counter()
        self.breaker = Breaker(clock)
        self._clock = clock
        self._busy_until_s = 0.0

    @property
    def state(self) -> State:
        if self.is_draining:
            return "draining"
        if self.is_up is False:
            return "down"
        if self.breaker.state != "closed":
            return self.breaker.state
        if self._clock() < self._busy_until_s:
            return "busy"
        return "unknown" if self.is_up is None else "up"

    @property
    def is_free(self) -> bool:
        """Whether it may get a request now."""
        if self.in_flight >= self.limit:
            return False
        state = self.state
        return state in ("up", "unknown") or (state == "half-open" and not self.is_probed)

    def begin(self) -> None:
        self.in_flight += 1
        if self.breaker.state == "half-open":
            self.is_probed = True

    def end(self, outcome: Outcome, first_text_s: float | None) -> None:
        self.in_flight -= 1
        self.is_probed = False
        self.outcomes[outcome] += 1
        if outcome in ("done", "empty", "refused"):
            is_useless = outcome != "done"
            self.useless_share += _NEW_SHARE * (is_useless - self.useless_share)
            self.breaker.succeed()
        elif outcome == "busy":
            self._busy_until_s = self._clock() + BUSY_PAUSE_S
        elif outcome != "left":
            self.breaker.fail(is_gone=outcome == "gone")
        if first_text_s is not None:
            before_s = self.first_text_s or first_text_s
            self.first_text_s = before_s + _NEW_SHARE * (first_text_s - before_s)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "url": self.url,
            "state": self.state,
            "in_flight": self.in_flight,
            "limit": self.limit,
            "leaves": self.is_leaving,
            "first_text_s": round(self.first_text_s, 4),
            "useless_share": round(self.useless_share, 2),
            "outcomes": dict(self.outcomes),
        }
