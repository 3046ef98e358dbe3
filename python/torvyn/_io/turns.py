"""Turns on an event loop, for tasks that always have more to do.

Such a task works for a slice of time and then waits for its next turn. In one turn of the loop, one
of them goes on, however many there are: whatever becomes due meanwhile waits for one slice. Tasks
that wait for something else do not ask, and cost nothing here.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from torvyn._io.per_loop import PerLoop

SLICE_S: Final = 0.0005
_STEPS_PER_LOOK: Final = 4
"""A look at the clock costs as much as a quick step."""


class Turns:
    """The turns of one loop."""

    __slots__ = ("_beginners", "_has_begun", "_is_armed", "_last", "_numbers", "_queue", "_virtual")

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, asyncio.Future[float]]] = []
        self._numbers = count()
        self._virtual = 0.0
        """How far whoever went on last has come: a newcomer begins there."""
        self._last: asyncio.Future[float] | None = None
        self._is_armed = False
        self._beginners: deque[asyncio.Future[None]] = deque()
        self._has_begun = False

    def next(self, at: float) -> asyncio.Future[float]:
        """The turn of a task that has come to `at`, and where it is then."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[float] = loop.create_future()
        heapq.heappush(self._queue, (max(at, self._virtual), next(self._numbers), turn))
        if not self._is_armed:
            self._is_armed = True
            loop.call_soon(self._go_on)
        return turn

    def _go_on(self) -> None:
        queue = self._queue
        while queue:
            at, _, turn = heapq.heappop(queue)
            if not turn.done():
                self._virtual, self._last = at, turn
                turn.set_result(at)
                break
        self._is_armed = bool(queue)
        if queue:
            asyncio.get_running_loop().call_soon(self._go_on)

    def is_last(self, turn: asyncio.Future[float]) -> bool:
        """Whether nobody has had a turn since."""
        return turn is self._last

    def begin(self) -> asyncio.Future[None] | None:
        """What remains to wait for before something new begins: one thing begins per turn of the
        loop. They do not wait for those that go on, nor those for them."""
        loop = asyncio.get_running_loop()
        if not self._has_begun:
            self._has_begun = True
            loop.call_soon(self._begin_next)
            return None
        begun: asyncio.Future[None] = loop.create_future()
        self._beginners.append(begun)
        return begun

    def _begin_next(self) -> None:
        while self._beginners:
            begun = self._beginners.popleft()
            if not begun.done():
                begun.set_result(None)
                asyncio.get_running_loop().call_soon(self._begin_next)
                return
        self._has_begun = False


_turns: Final[PerLoop[Turns]] = PerLoop(lambda _: Turns())
turns_here: Final = _turns.here
"""The turns of the running loop."""


class Share:
    """One task's turns. It gets `weight` times as many as a task of weight 1."""

    __slots__ = ("_at", "_began_s", "_clock", "_is_new", "_pause", "_steps", "_turns")

    def __init__(self, weight: float = 1.0, clock: Callable[[], float] = time.perf_counter) -> None:
        self._turns = turns_here()
        self._pause = 1 / weight
        self._at = 0.0
        self._clock = clock
        self._began_s = 0.0
        self._is_new = True
        self._steps = 0

    def is_over(self) -> bool:
        """Call it after each step: whether the task has worked for a slice. If it has waited
        meanwhile, a new one begins."""
        self._steps += 1
        if self._steps % _STEPS_PER_LOOK:
            return False
        if self._is_new:
            self._is_new = False
            self._began_s = self._clock()
            asyncio.get_running_loop().call_soon(self._renew)
            return False
        return self._clock() - self._began_s >= SLICE_S

    def _renew(self) -> None:
        """The loop runs: the task waits for something."""
        self._is_new = True

    async def take_turn(self) -> None:
        turn = self._turns.next(self._at + self._pause)
        self._at = await turn
        while not self._turns.is_last(turn):
            # The turn has passed: the task was sending meanwhile.
            turn = self._turns.next(self._at)
            self._at = await turn
        self._is_new = True
