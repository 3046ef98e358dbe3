"""`timer`: a tick at a steady pace.

Every tick is due at start + n x interval, so no delay of one tick moves the next. Ticks that became
due while the flow was not taking are sent late, never left out. It waits without blocking.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.contract import PENDING, Pending, Source

SPEC = Spec(
    name="timer",
    role="source",
    summary="A tick at a steady pace, the first one at once.",
    options=(
        Option("interval", "duration", 1.0, "The time from one tick to the next."),
        Option("count", "integer", 0, "How many ticks are sent; 0 is endless.", minimum=0),
        Option("text", "text", "{n}", "What a tick says; `{n}` is its number, from 0."),
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
            hint = 'write an interval such as "100ms"'
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
