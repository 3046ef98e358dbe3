"""`timer`: sends a tick at a fixed interval.

Tick n is due at start + n x interval, so the delay of one tick does not move the next. Ticks that
fall due while the flow takes none are sent late, not skipped. Waiting does not block.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="timer",
    role="source",
    summary="Sends a tick at a fixed interval; the first one at once.",
    options=(
        Option("interval", "duration", 1.0, "The time between two ticks."),
        Option("count", "integer", 0, "The number of ticks; 0 means no limit.", minimum=0),
        Option("text", "text", "{n}", "The text of a tick; `{n}` is its number, from 0."),
    ),
    main="interval",
    example="""\
[flow.main.nodes.clock]
component = "timer"
config = { interval = "500ms", count = 10, text = "tick {n}" }
""",
)


class Timer(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "ticks"

    _clock: Callable[[], float] = staticmethod(time.monotonic)

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._interval_s: float = options["interval"]
        self._count: int = options["count"]
        self._text: str = options["text"]
        self._sent = 0
        self._start_s: float | None = None
        if self._interval_s == 0:
            hint = 'set it to a duration such as "100ms"'
            raise wrong_config(SPEC, "`interval` cannot be 0", hint)

    def pull(self) -> str | Pending | None:
        n = self._sent
        if self._count and n == self._count:
            return None
        now_s = self._clock()
        if self._start_s is None:
            self._start_s = now_s
        wait_s = self._start_s + n * self._interval_s - now_s
        if wait_s > 0:
            return PENDING.after(wait_s)
        self._sent = n + 1
        return self._text.replace("{n}", str(n))
