"""The limits of a key: how many streams, how many requests a minute, how many tokens a second.

Kept per key, whatever connection or protocol its requests come by. Who has no limits costs nothing
here.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

from torvyn.transport.access.caller import Caller
from torvyn.transport.rejection import Rejection

Clock = Callable[[], float]

_EXACT_S: Final = 1e-6
"""Below this, a difference of times is a rounding."""
_CATCH_UP_S: Final = 0.1
"""How much of a lost time may be made up for: timers are late, and the mean should be right."""
_FREE: Final = contextlib.nullcontext()


class KeyLimits:
    """What each key has used."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, _Used] = {}

    def enter(self, caller: Caller) -> AbstractContextManager[None]:
        """Counts a request, and holds one of the key's streams while it is entered; or refuses."""
        if caller.max_streams is None and caller.requests_per_minute is None:
            return _FREE
        used = self._of(caller)
        if caller.max_streams is not None and used.streams >= caller.max_streams:
            raise _busy(caller.max_streams)
        if caller.requests_per_minute is not None:
            wait_s = used.requests.take(self._clock(), caller.requests_per_minute)
            if wait_s > 0:
                raise _too_often(caller.requests_per_minute, wait_s)
        return used

    def pace(self, caller: Caller) -> Pace | None:
        """How fast the key's answers may come; None for as fast as they are made."""
        if caller.tokens_per_second is None:
            return None
        used = self._of(caller)
        if used.pace is None:
            used.pace = Pace(caller.tokens_per_second, self._clock)
        used.pace.rate = caller.tokens_per_second
        return used.pace

    def forget(self, key: str) -> None:
        """The key is gone."""
        self._used.pop(key, None)

    def _of(self, caller: Caller) -> _Used:
        return self._used.setdefault(caller.key, _Used())


class _Used:
    """`with` it: one stream more."""

    __slots__ = ("pace", "requests", "streams")

    def __init__(self) -> None:
        self.streams = 0
        self.requests = RateLimiter()
        self.pace: Pace | None = None

    def __enter__(self) -> None:
        self.streams += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.streams -= 1


class RateLimiter:
    """So many a minute, at once or spread: a bucket that fills evenly.

    One number says how full it is: the moment at which it would be full again.
    """

    __slots__ = ("_full_s",)

    def __init__(self) -> None:
        self._full_s = -math.inf

    def take(self, now_s: float, per_minute: int) -> float:
        """0 when there was one; else the seconds until there will be."""
        each_s = 60 / per_minute
        full_s = max(self._full_s, now_s) + each_s
        wait_s = full_s - now_s - 60
        if wait_s > _EXACT_S:
            return wait_s
        self._full_s = full_s
        return 0.0


class Pace:
    """Tokens a second, of all of a key's answers together. What came too fast is a debt, which
    whoever comes next waits for; nothing is cut."""

    __slots__ = ("_clock", "_paid_s", "rate")

    def __init__(self, rate: float, clock: Clock = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._paid_s = -math.inf

    def spend(self, tokens: int) -> float:
        """Notes that they were made; the seconds until the debt is paid."""
        now_s = self._clock()
        self._paid_s = max(self._paid_s, now_s - _CATCH_UP_S) + tokens / self.rate
        return self._paid_s - now_s

    def debt_s(self) -> float:
        return self._paid_s - self._clock()


def _busy(most: int) -> Rejection:
    streams = "1 stream runs" if most == 1 else f"{most} streams run"
    return _used_up(streams, "wait for one to end, or stop it")


def too_many(connections: int) -> Rejection:
    """Of those that carry many streams each."""
    return _used_up(f"{connections} connections are held", "one carries many streams")


def _used_up(what: str, hint: str) -> Rejection:
    message = f"{what} with this key, and it may have no more"
    headers = {"retry-after": "1"}
    return Rejection(429, "transport.key-busy", message, hint=hint, headers=headers)


def _too_often(per_minute: int, wait_s: float) -> Rejection:
    return Rejection(
        429,
        "transport.key-rate",
        f"this key may ask {per_minute} times a minute",
        hint="`Retry-After` says when it may ask again",
        headers={"retry-after": str(max(1, math.ceil(wait_s - _EXACT_S)))},
    )
