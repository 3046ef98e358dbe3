"""The course of one stream over as many connections as it takes.

Each frame is given once and in order, by its number: what comes again after a resume is passed
over, and what is missing is asked for again or is an error. Only a stateful stream is resumed; one
that has not begun is asked for again only if the server said later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torvyn.client import failures, retry_policy
from torvyn.client.failures import Busy, ServerError, TooSlow
from torvyn.client.retry_policy import Patience
from torvyn.client.transports.transport import Arrival, Cut, Opening, Wire, is_unreachable
from torvyn.errors import TorvynError
from torvyn.protocol.frames import (
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    HeartbeatFrame,
    StartFrame,
)
from torvyn.protocol.timing import Timing

TAKEN_OVER = "session.taken-over"


@dataclass(frozen=True, slots=True)
class Policy:
    """When to try again."""

    retries: int = 3
    retry_for_s: float = 30.0
    resumes: int = 20
    resume_for_s: float = 120.0
    on_reconnect: Callable[[int, TorvynError], None] | None = None


class Course:
    """`read` until it gives None. `close` ends it at any time."""

    def __init__(
        self, wire: Wire, opening: Opening, policy: Policy, where: str, *, is_resumable: bool
    ) -> None:
        self._wire = wire
        self._opening = opening
        self._where = where
        self._on_reconnect = policy.on_reconnect
        self._is_resumable = is_resumable
        self._before = Patience(policy.retries, policy.retry_for_s, retry_policy.RETRY_PAUSE_S)
        self._after = Patience(policy.resumes, policy.resume_for_s, retry_policy.RESUME_PAUSE_S)
        self._arrival: Arrival | None = None
        self._closed = asyncio.Event()
        self._gap: Cut | None = None
        self._failure: TorvynError | None = None
        self._is_asked = False
        self._beginning: asyncio.Task[Sequence[Frame]] | None = None
        self.id = opening.id
        self.start: StartFrame | None = None
        self.epoch, self.seq = _place(opening.after)
        self.end: EndFrame | None = None
        self.error: ErrorFrame | None = None
        self.is_over = False
        self.timing = Timing()
        self.resumes = 0
        self.heartbeats = 0

    def place(self, seq: int) -> str | int | None:
        """What to go on from after that frame: an event id, or a number while the epoch is not
        known."""
        return seq or None if self.epoch is None else f"{self.epoch}-{seq}"

    async def read(self) -> Sequence[Frame] | None:
        """The frames that arrived together, at least one; None when there are no more."""
        if self._failure is not None:
            raise self._failure
        while not self.is_over and not self._closed.is_set():
            try:
                if fresh := await (self._begun() if self.start is None else self._arrived()):
                    return fresh
            except (Cut, TorvynError) as error:
                self._let_go()
                if self._closed.is_set():
                    break
                await self._recover(error)
        if self._beginning is None:
            self._let_go()
        return None

    def close(self) -> None:
        """The connection is closed at once; a `read` that waits gives None. What was asked for and
        would live on is left to `abandoned`."""
        self._closed.set()
        if self._beginning is None:
            self._let_go()
        elif not self._is_resumable:
            self._beginning.cancel()

    async def abandoned(self) -> str | None:
        """After `close`: the id of what goes on at the server. One that was asked for a moment ago
        has to be told its id first."""
        if self._beginning is not None:
            with contextlib.suppress(Cut, TorvynError):
                await self._beginning
            self._let_go()
        return self.id if self.start is not None and not self.is_over else None

    # Reading

    async def _begun(self) -> Sequence[Frame]:
        """The first frames. Neither `close` nor who stops waiting ends the task: the server may
        have begun, and the id is on its way."""
        if self._beginning is None:
            self.timing = self.timing if self._is_asked else Timing()
            self._is_asked = True
            self._beginning = asyncio.ensure_future(self._begin())
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({self._beginning, closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closed.cancel()
        if not self._beginning.done():
            return []
        done, self._beginning = self._beginning, None
        return [] if done.cancelled() else done.result()

    async def _begin(self) -> Sequence[Frame]:
        self._arrival = await self._wire.open(self._opening)
        fresh: Sequence[Frame] = []
        while self._arrival is not None and not fresh:
            fresh = self._taken(await self._arrival.read())
        if self._arrival is None:
            self._over()
        elif self.start is None:
            raise failures.garbage("a frame before the start", self._where)
        return fresh

    async def _arrived(self) -> Sequence[Frame]:
        if self._gap is not None:
            raise self._gap
        if self._arrival is None:
            again = Opening("resume", id=self.id, after=self.place(self.seq))
            self._arrival = await self._wire.open(again)
            self.resumes += 1
        if self._arrival is None:
            self._over()
            return []
        if self._closed.is_set():
            return []
        return self._taken(await self._arrival.read())

    def _taken(self, frames: Sequence[Frame]) -> list[Frame]:
        """Those that are new, in order; what follows a gap waits for another connection."""
        fresh: list[Frame] = []
        for frame in frames:
            if isinstance(frame, HeartbeatFrame):
                self.heartbeats += 1
                self._after.renew()
            elif isinstance(frame, StartFrame):
                fresh += self._started(frame)
            elif self._is_next(frame.seq) or _is_farewell(frame):
                self._note(frame)
                fresh.append(frame)
            if self._gap is not None or self.is_over:
                break
        if self._arrival is not None and self._arrival.epoch is not None:
            self.epoch = self._arrival.epoch
        if any(isinstance(frame, DeltaFrame) for frame in fresh):
            self.timing.delivered()
        return fresh

    def _started(self, start: StartFrame) -> list[Frame]:
        is_first = self.start is None
        # Who watches is not told the id by which a stream can be stopped.
        if self.id is not None and start.id != self.id and self._opening.kind != "observe":
            raise failures.garbage("the start of another stream", self._where)
        self.start, self.id = start, self.id or start.id
        return [start] if is_first else []

    def _is_next(self, seq: int) -> bool:
        if self._opening.kind == "observe":
            return True
        if seq > self.seq + 1:
            self._gap = Cut(f"frame {self.seq + 1} is missing, {seq} came")
        return seq == self.seq + 1

    def _note(self, frame: Frame) -> None:
        self._after.renew()
        if isinstance(frame, ErrorFrame):
            self.error = frame
        if _is_farewell(frame):
            self._over()
        elif not isinstance(frame, (StartFrame, HeartbeatFrame)):
            self.seq = frame.seq
        if isinstance(frame, EndFrame):
            self.end = frame
            self._over()

    def _over(self) -> None:
        self.is_over = True
        self.timing.ended()

    def _let_go(self) -> None:
        if self._arrival is not None:
            self._arrival.close()
            self._arrival = None

    # Trying again

    async def _recover(self, error: Cut | TorvynError) -> None:
        """Waits for as long as it should; raises when there is no use in it."""
        self._gap = None
        told = self._told(error)
        has_begun = self.start is not None
        wanted_s = told.retry_after_s if isinstance(told, ServerError) else None
        pause_s = None
        if has_begun and self._is_resumable and _may_pass(error):
            pause_s = self._after.pause_s(wanted_s)
        elif not has_begun and isinstance(told, Busy) and told.status != 502:
            pause_s = self._before.pause_s(wanted_s)
        if pause_s is None:
            self._failure = told
            self._over()
            raise told
        if has_begun and self._on_reconnect is not None:
            self._on_reconnect(self._after.tries, told)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), pause_s)

    def _told(self, error: Cut | TorvynError) -> TorvynError:
        if isinstance(error, TorvynError):
            return error
        hint = None
        if not self._is_resumable:
            hint = "a stream with `stateful=True` is resumed"
        elif self.start is not None:
            hint = "go on later with `client.resume(stream.id, after=stream.last_id)`"
        told = failures.cut(str(error), self._where, hint)
        told.__cause__ = error
        return told


def _may_pass(error: Cut | TorvynError) -> bool:
    """Whether another connection may do better."""
    return isinstance(error, (Cut, Busy, TooSlow)) or is_unreachable(error)


def _is_farewell(frame: Frame) -> bool:
    """Another reader has the stream now: nothing follows, and its number is nobody's."""
    return isinstance(frame, ErrorFrame) and frame.code == TAKEN_OVER


def _place(after: str | int | None) -> tuple[str | None, int]:
    """The epoch, if it is known, and the last frame that was read."""
    if isinstance(after, int):
        return None, after
    epoch, _, seq = (after or "").rpartition("-")
    return epoch or None, int(seq) if seq.isdecimal() else 0
