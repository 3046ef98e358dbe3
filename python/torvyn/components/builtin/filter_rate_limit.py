"""`rate-limit`: drops elements above a rate.

A token bucket holds `burst` permits and refills at `rate` per `per`. An element takes a permit or
is dropped; it is never delayed, because a filter does not wait.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import ClassVar

from torvyn._contract.element import Element
from torvyn._contract.roles import Filter
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="rate-limit",
    role="filter",
    summary="Drops the elements above a rate.",
    options=(
        Option(
            "rate", "number", None, "The number of elements that pass per period.", required=True
        ),
        Option("per", "duration", 1.0, "The length of the period."),
        Option(
            "burst",
            "integer",
            0,
            "The number of elements that pass at once after a pause; 0 means `rate`.",
            minimum=0,
        ),
    ),
    main="rate",
    example="""\
[flow.main.nodes.limit]
component = "rate-limit"
config = { rate = 100, per = "1s", burst = 20 }
""",
)

# A rounding error must not delay a permit that is due now.
_NEARLY_ONE = 1.0 - 1e-9


class RateLimit(Filter):
    spec: ClassVar[Spec] = SPEC

    filtered = 0
    """The number of elements dropped."""

    _clock: Callable[[], float] = staticmethod(time.monotonic)

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        rate, per_s = options["rate"], options["per"]
        if rate <= 0 or per_s <= 0:
            raise wrong_config(SPEC, "`rate` and `per` must be greater than 0")
        self._permits_per_s: float = rate / per_s
        self._burst: float = options["burst"] or max(1, math.ceil(rate))
        self._permits = float(self._burst)
        self._last_s: float | None = None
        self.filtered = 0

    def evaluate(self, element: Element) -> bool:
        now_s = self._clock()
        if self._last_s is not None:
            earned = (now_s - self._last_s) * self._permits_per_s
            self._permits = min(self._burst, self._permits + earned)
        self._last_s = now_s
        if self._permits < _NEARLY_ONE:
            self.filtered += 1
            return False
        self._permits -= 1.0
        return True
