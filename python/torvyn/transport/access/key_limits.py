"""The limits of an API key: streams, requests per minute, tokens per second.

Counted per key, across connections and protocols. Keys without limits cost nothing here.
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
"""Smaller differences of time are rounding errors."""
_CATCH_UP_S: Final = 0.1
"""How much lost time may be caught up: timers are late, and the mean rate should be right."""
KEY_BUSY: Final = "transport.key-busy"
_UNLIMITED: Final = contextlib.nullcontext()


class KeyLimits:
    """The limiter of every key."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._usage: dict[str, _KeyUsage] = {}
        self._shares: dict[str, float] = {}

    def enter(self, caller: Caller) -> AbstractContextManager[None]:
        """Counts a request, and in a `with` statement a stream. Raises a rejection at a limit."""
        if caller.max_streams is None and caller.requests_per_minute is None:
            return _UNLIMITED
        usage = self._of(caller)
        if caller.max_streams is not None and usage.streams >= caller.max_streams:
            raise too_many_streams(caller.max_streams)
        if caller.requests_per_minute is not None:
            wait_s = usage.requests.take(self._clock(), caller.requests_per_minute)
            if wait_s > 0:
                raise rate_exceeded(caller.requests_per_minute, wait_s)
        return usage

    def pace(self, caller: Caller) -> Pace | None:
        """The pace of the key's answers; None: unlimited."""
        if caller.tokens_per_second is None:
            return None
        usage = self._of(caller)
        if usage.pace is None:
            usage.pace = Pace(caller.tokens_per_second, self._clock)
        usage.pace.rate = caller.tokens_per_second * self._shares.get(caller.key, 1.0)
        return usage.pace

    def set_share(self, key: str, share: float) -> None:
        """The part of the key's tokens per second that this server has; others have the rest."""
        before = self._shares.get(key, 1.0)
        self._shares[key] = share
        usage = self._usage.get(key)
        if usage is not None and usage.pace is not None:
            usage.pace.rate *= share / before
        if share == 1.0:
            del self._shares[key]

    def forget(self, key: str) -> None:
        self._usage.pop(key, None)

    def _of(self, caller: Caller) -> _KeyUsage:
        return self._usage.setdefault(caller.key, _KeyUsage())


class _KeyUsage:
    """Use in a `with` statement: one more stream."""

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
    """A limit per minute, in bursts or evenly: a bucket that refills at a constant rate.

    Its state is one number: the time at which the bucket will be full again.
    """

    __slots__ = ("full_s",)

    def __init__(self, full_s: float = -math.inf) -> None:
        self.full_s = full_s

    def take(self, now_s: float, per_minute: int) -> float:
        """0 if the request is within the limit, else the seconds to wait."""
        each_s = 60 / per_minute
        full_s = max(self.full_s, now_s) + each_s
        wait_s = full_s - now_s - 60
        if wait_s > _EXACT_S:
            return wait_s
        self.full_s = full_s
        return 0.0


class Pace:
    """Tokens per second, of all answers of a key together. Tokens that came too fast are debt: the
    next ones wait until it is paid."""

    __slots__ = ("_clock", "_paid_s", "rate")

    def __init__(self, rate: float, clock: Clock = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._paid_s = -math.inf

    def spend(self, tokens: int) -> float:
        """Adds tokens; returns the seconds until the debt is paid."""
        now_s = self._clock()
        self._paid_s = max(self._paid_s, now_s - _CATCH_UP_S) + tokens / self.rate
        return self._paid_s - now_s

    def debt_s(self) -> float:
        return self._paid_s - self._clock()


def too_many_streams(limit: int) -> Rejection:
    streams = "1 stream" if limit == 1 else f"{limit} streams"
    return _key_busy(streams, "wait until one ends, or stop one")


def too_many_connections(count: int) -> Rejection:
    """For WebSocket and gRPC sessions, which carry many streams each."""
    return _key_busy(f"{count} connections", "one connection carries many streams")


def _key_busy(used: str, hint: str) -> Rejection:
    message = f"this API key already has {used}, the maximum"
    headers = {"retry-after": "1"}
    return Rejection(429, KEY_BUSY, message, hint=hint, headers=headers)


def rate_exceeded(per_minute: int, wait_s: float) -> Rejection:
    return Rejection(
        429,
        "transport.key-rate",
        f"this API key exceeded its limit of {per_minute} requests per minute",
        hint="try again after the seconds in `Retry-After`",
        headers={"retry-after": str(max(1, math.ceil(wait_s - _EXACT_S)))},
    )
