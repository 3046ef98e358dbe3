"""A jitter buffer: spreads text that arrives in bursts, and delays none of it beyond a bound.

Each piece has a deadline: its arrival plus the bound. Text is released at the slowest even rate
that meets all deadlines, so bursts are spread and a backlog is worked off. A grapheme cluster is
never split, unless its parts arrive further apart than the bound. Pure: the time is an argument.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from torvyn.text import TextStreamer

TICK_S: Final = 0.008
"""The shortest time between two releases; text due before the next tick is released together."""


class JitterBuffer:
    """`put` text as it arrives; `take` the text that is due, then call again at `due_s`."""

    def __init__(self, bound_s: float = 0.12) -> None:
        # A timer may fire late, usually by less than a tick.
        self._bound_s = max(0.0, bound_s - TICK_S)
        self._clusters = Clusters()
        self._pending_due_s = 0.0
        self._pieces: deque[tuple[deque[str], float]] = deque()
        self._next_s = 0.0

    @property
    def due_s(self) -> float | None:
        """When the next text is due; None while the buffer is empty."""
        if self._pieces:
            return min(self._next_s, self._pieces[0][1])
        return self._pending_due_s if self._clusters.pending else None

    def put(self, text: str, now_s: float) -> None:
        due_s = now_s + self._bound_s
        had_pending = bool(self._clusters.pending)
        whole = deque(self._clusters.put(text))
        if not whole and had_pending:
            return
        if not self._pieces:
            self._next_s = max(self._next_s, now_s)
        if had_pending:
            # The pending cluster began to arrive earlier than the rest.
            self._pieces.append((deque([whole.popleft()]), self._pending_due_s))
        if whole:
            self._pieces.append((whole, due_s))
        self._pending_due_s = due_s

    def take(self, now_s: float) -> str:
        """The text that is due now."""
        if not self._pieces:
            is_due = bool(self._clusters.pending) and now_s >= self._pending_due_s
            return self._clusters.finish() if is_due else ""
        if now_s < min(self._next_s, self._pieces[0][1]):
            return ""
        per_s = self._rate(now_s)
        count = max(1, round(per_s * TICK_S))
        out: list[str] = []
        while self._pieces and (len(out) < count or self._pieces[0][1] <= now_s):
            clusters, _ = self._pieces[0]
            out.append(clusters.popleft())
            if not clusters:
                self._pieces.popleft()
        self._next_s = now_s + max(TICK_S, len(out) / per_s)
        return "".join(out)

    def finish(self) -> None:
        """The input has ended, so the pending cluster is complete."""
        if cluster := self._clusters.finish():
            self._pieces.append((deque([cluster]), self._pending_due_s))

    def _rate(self, now_s: float) -> float:
        """Clusters per second: the lowest rate that meets every deadline."""
        rate = 1.0 / max(self._bound_s, TICK_S)
        count = 0
        for clusters, due_s in self._pieces:
            count += len(clusters)
            rate = max(rate, count / max(due_s - now_s, TICK_S))
        return rate


class Clusters:
    """Splits text into grapheme clusters; the last one stays pending, because it may continue."""

    def __init__(self) -> None:
        self._streamer = TextStreamer(graphemes=True)
        self.pending = ""

    def put(self, text: str) -> list[str]:
        whole: list[str] = []
        for character in text:
            try:
                done = self._streamer.put(character.encode())
            except UnicodeEncodeError:
                # Half of a surrogate pair joins no cluster.
                whole += [part for part in (self.finish(), character) if part]
                continue
            self.pending += character
            if done:
                whole.append(done)
                self.pending = self.pending[len(done) :]
        return whole

    def finish(self) -> str:
        cluster, self.pending = self.pending, ""
        self._streamer.finish()
        return cluster
