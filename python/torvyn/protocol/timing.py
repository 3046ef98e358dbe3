"""Timing of one answer, on the server or on the client: when its text was delivered.

The time to first token runs from the request to the first usable text; a role, a heartbeat or text
that is held back does not count. Of many gaps only every second, fourth, ... is kept, so memory is
bounded.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Final

from torvyn.protocol.frames import Usage

Clock = Callable[[], float]
_MOST_GAPS: Final = 512
_NO_USAGE: Final = Usage()


class Timing:
    """The clock of one request. `figures()` may be called at any time."""

    __slots__ = (
        "_clock",
        "_ended_s",
        "_first_s",
        "_gaps",
        "_last_s",
        "_left_out",
        "_received_s",
        "_started_s",
        "_stride",
    )

    def __init__(self, clock: Clock = time.perf_counter, received_s: float | None = None) -> None:
        self._clock = clock
        self._received_s = clock() if received_s is None else received_s
        self._started_s: float | None = None
        self._first_s: float | None = None
        self._last_s = self._received_s
        self._ended_s: float | None = None
        self._gaps = array("d")
        self._stride = 1
        self._left_out = 0

    def is_of(self, clock: Clock) -> bool:
        """Whether it reads that clock."""
        return self._clock is clock

    def started(self) -> None:
        """The engine starts to work on the request: its queue time ends."""
        self._started_s = self._clock()

    def delivered(self, at_s: float | None = None) -> None:
        """Usable text has reached the consumer, now or at that time."""
        now_s = self._clock() if at_s is None else at_s
        if self._first_s is None:
            self._first_s = now_s
        elif self._left_out:
            self._left_out -= 1
        else:
            self._gaps.append(now_s - self._last_s)
            self._left_out = self._stride - 1
            if len(self._gaps) > _MOST_GAPS:
                self._thin_out()
        self._last_s = now_s

    def _thin_out(self) -> None:
        """Drops every second gap, of the kept ones and from now on."""
        del self._gaps[::2]
        self._stride *= 2
        self._left_out = self._stride - 1

    def ended(self) -> None:
        """The engine has ended; its last output may still be delivered."""
        self._ended_s = self._clock()

    def figures(self, usage: Usage = _NO_USAGE) -> dict[str, float]:
        """Seconds, counts and rates; figures that are not known yet are missing."""
        tokens = usage.completion_tokens
        end_s = self._clock() if self._ended_s is None else max(self._ended_s, self._last_s)
        known: dict[str, float] = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": tokens,
            "duration_s": max(0.0, end_s - self._received_s),
        }
        if self._started_s is not None:
            known["queue_s"] = max(0.0, self._started_s - self._received_s)
        if self._first_s is None:
            return known
        known["ttft_s"] = max(0.0, self._first_s - self._received_s)
        if tokens > 1:
            known["inter_token_s"] = max(0.0, self._last_s - self._first_s) / (tokens - 1)
            known["time_per_output_token_s"] = max(0.0, end_s - self._first_s) / (tokens - 1)
        if self._gaps:
            known["gap_p50_s"] = self._gap(0.50)
            known["gap_p99_s"] = self._gap(0.99)
        if known["duration_s"] > 0:
            known["tokens_per_s"] = tokens / known["duration_s"]
        return known

    def _gap(self, share: float) -> float:
        """The gap that this share of all gaps does not exceed."""
        gaps = sorted(self._gaps)
        return max(0.0, gaps[min(len(gaps) - 1, int(share * len(gaps)))])
