"""A jitter buffer: text that comes in bursts leaves evenly, and never much later.

Each piece has a moment at which it must be out: its arrival and the bound. What waits leaves at the
slowest even rate that keeps all of these, so a burst is spread, and a backlog is caught up with.
What a reader sees as one character leaves whole, unless its parts come further apart than the
bound. Pure: the time comes from outside.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from torvyn.text import TextStreamer

TICK_S: Final = 0.008
"""Text is not let out more often: what is due before the next tick leaves together."""


class Jitter:
    """`put` what arrives, `take` what is due, and come again at `due_s`."""

    def __init__(self, bound_s: float = 0.12) -> None:
        # A timer may be late, by less than a tick as a rule.
        self._bound_s = max(0.0, bound_s - TICK_S)
        self._clusters = Clusters()
        self._held_due_s = 0.0
        self._pieces: deque[tuple[deque[str], float]] = deque()
        self._next_s = 0.0

    @property
    def due_s(self) -> float | None:
        """When there is something to take; None while nothing waits."""
        if self._pieces:
            return min(self._next_s, self._pieces[0][1])
        return self._held_due_s if self._clusters.held else None

    def put(self, text: str, now_s: float) -> None:
        due_s = now_s + self._bound_s
        was_held = bool(self._clusters.held)
        whole = deque(self._clusters.put(text))
        if not whole and was_held:
            return
        if not self._pieces:
            self._next_s = max(self._next_s, now_s)
        if was_held:
            # What was held began to arrive earlier than the rest.
            self._pieces.append((deque([whole.popleft()]), self._held_due_s))
        if whole:
            self._pieces.append((whole, due_s))
        self._held_due_s = due_s

    def take(self, now_s: float) -> str:
        """What is due now."""
        if not self._pieces:
            is_due = bool(self._clusters.held) and now_s >= self._held_due_s
            return self._clusters.finish() if is_due else ""
        if now_s < min(self._next_s, self._pieces[0][1]):
            return ""
        per_s = self._rate(now_s)
        wanted = max(1, round(per_s * TICK_S))
        out: list[str] = []
        while self._pieces and (len(out) < wanted or self._pieces[0][1] <= now_s):
            clusters, _ = self._pieces[0]
            out.append(clusters.popleft())
            if not clusters:
                self._pieces.popleft()
        self._next_s = now_s + max(TICK_S, len(out) / per_s)
        return "".join(out)

    def finish(self) -> None:
        """Nothing more comes: what was held is whole."""
        if held := self._clusters.finish():
            self._pieces.append((deque([held]), self._held_due_s))

    def flush(self) -> str:
        """All that waits, at once."""
        self.finish()
        rest = "".join(cluster for clusters, _ in self._pieces for cluster in clusters)
        self._pieces.clear()
        return rest

    def _rate(self, now_s: float) -> float:
        """Clusters a second: the least at which each piece is out when it must be."""
        rate = 1.0 / max(self._bound_s, TICK_S)
        count = 0
        for clusters, due_s in self._pieces:
            count += len(clusters)
            rate = max(rate, count / max(due_s - now_s, TICK_S))
        return rate


class Clusters:
    """Text into what readers see as characters; the last one is held, for it may go on."""

    def __init__(self) -> None:
        self._streamer = TextStreamer(graphemes=True)
        self.held = ""

    def put(self, text: str) -> list[str]:
        whole: list[str] = []
        for character in text:
            try:
                done = self._streamer.put(character.encode())
            except UnicodeEncodeError:
                # Half of a pair joins nothing.
                whole += [part for part in (self.finish(), character) if part]
                continue
            self.held += character
            if done:
                whole.append(done)
                self.held = self.held[len(done) :]
        return whole

    def finish(self) -> str:
        held, self.held = self.held, ""
        self._streamer.finish()
        return held
