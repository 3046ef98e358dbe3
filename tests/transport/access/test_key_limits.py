"""The limits of a key: streams, requests per minute, tokens per second, priority."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgi_client import Endless, Gated, within
from hypothesis import given
from hypothesis import strategies as st

from torvyn.engine import Scripted
from torvyn.engine.answer.answer import AnswerWrapper, Reader
from torvyn.engine.delta import Piece
from torvyn.protocol.frames import Usage
from torvyn.testing import Clock
from torvyn.transport.access.caller import ANYONE, Caller
from torvyn.transport.access.key_limits import KeyLimits, Pace, RateLimiter
from torvyn.transport.access.paced_answer import PacedAnswer
from torvyn.transport.rejection import Rejection


async def test_a_key_has_so_many_streams_and_the_next_when_one_has_ended(keyed) -> None:
    keyed.add("one", max_streams=1)
    engine = Gated()
    keyed.serve(engine)
    client = keyed.ask("one")
    await client.until(1)

    refused = await keyed.ask("one")
    assert (refused.status, refused.json["error"]["code"]) == (429, "transport.key-busy")
    assert refused.headers["retry-after"] == "1"
    for _ in range(2):
        engine.tokens.put_nowait(None)
    await client
    assert (await keyed.ask("one")).status == 200


async def test_one_keys_streams_are_not_anothers(keyed) -> None:
    keyed.add("one", max_streams=1)
    engine = Gated()
    keyed.serve(engine)
    client = keyed.ask("one")
    await client.until(1)
    free = keyed.ask("first")
    await free.until(1)

    assert free.status == 200
    client.leave()
    free.leave()


async def test_a_key_is_limited_per_minute_and_gets_a_retry_time(keyed) -> None:
    keyed.add("calm", requests_per_minute=3)
    keyed.serve(Scripted("a"))
    assert [(await keyed.ask("calm")).status for _ in range(3)] == [200] * 3

    refused = await keyed.ask("calm")
    assert (refused.status, refused.json["error"]["code"]) == (429, "transport.key-rate")
    assert refused.headers["retry-after"] == "20"
    keyed.clock.advance(19.9)
    assert (await keyed.ask("calm")).status == 429
    keyed.clock.advance(0.1)
    assert (await keyed.ask("calm")).status == 200


@given(st.integers(1, 100_000), st.floats(0, 1e6), st.lists(st.floats(0, 0.1), max_size=50))
def test_the_wait_is_enough_and_not_too_long(
    per_minute: int, now_s: float, pauses: list[float]
) -> None:
    bucket = RateLimiter()
    for pause_s in pauses:
        now_s += pause_s
        bucket.take(now_s, per_minute)
    bucket.full_s = max(bucket.full_s, now_s + 60)
    wait_s = bucket.take(now_s, per_minute)

    assert 0 < wait_s <= 60 / per_minute + 1e-6
    assert bucket.take(now_s + wait_s - 2e-6, per_minute) or wait_s < 4e-6
    assert not bucket.take(now_s + wait_s, per_minute)


def test_never_more_requests_than_two_minutes_worth_in_a_minute() -> None:
    clock, caller = Clock(), Caller(key="k", requests_per_minute=10)
    limits = KeyLimits(clock)
    let_in = 0
    for _ in range(600):
        clock.advance(0.1)
        try:
            limits.enter(caller)
            let_in += 1
        except Rejection:
            pass

    # The bucket was full, and was filled once more.
    assert let_in in (19, 20)


def test_a_caller_without_limits_leaves_no_state() -> None:
    limits = KeyLimits()
    with limits.enter(ANYONE), limits.enter(Caller(key="k")):
        assert limits.pace(ANYONE) is None

    assert not limits._usage


# Tokens a second


class Tokens(AnswerWrapper):
    """An answer of so many tokens, some per piece."""

    def __init__(self, count: int, each: int = 1) -> None:
        super().__init__(Scripted("").generate("x"))
        self.made = 0
        self._count, self._each = count, each

    @property
    def usage(self) -> Usage:
        return Usage(completion_tokens=self.made)

    async def push(self, reader: Reader) -> None:
        while self.made < self._count:
            self.made += self._each
            if reader.add("x") and (sending := reader.flush()) is not None:
                await sending

    async def paced(self, pace: Pace, pause: Any) -> list[Piece]:
        pieces = Pieces()
        await PacedAnswer(self, pace, pause).push(pieces)
        return pieces.pieces


class Pieces:
    """A reader that keeps what it gets."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def add(self, piece: Piece) -> bool:
        self.pieces.append(piece)
        return False

    def flush(self) -> None:
        return None


@pytest.mark.parametrize("rate", [3.0, 50.0, 2000.0])
async def test_an_answer_comes_at_the_pace_of_its_key_and_whole(rate: float) -> None:
    clock = Clock()
    begun_s = clock.now_s

    async def pause(seconds: float) -> None:
        clock.advance(max(0.0, seconds))

    pieces = await Tokens(200).paced(Pace(rate, clock), pause)

    assert len(pieces) == 200
    # A tenth of a second may be caught up, and the last fiftieth is not waited for.
    assert clock.now_s - begun_s == pytest.approx(200 / rate, abs=0.13)


async def test_a_delta_of_many_tokens_costs_as_many() -> None:
    clock = Clock()
    begun_s = clock.now_s

    async def pause(seconds: float) -> None:
        clock.advance(max(0.0, seconds))

    assert len(await Tokens(100, 20).paced(Pace(10, clock), pause)) == 5
    assert clock.now_s - begun_s == pytest.approx(10, abs=0.13)


async def test_the_debt_of_one_answer_is_waited_for_by_the_next() -> None:
    clock = Clock()
    waits: list[float] = []
    pace = Pace(10, clock)
    pace.spend(50)

    async def pause(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(max(0.0, seconds))

    await Tokens(1).paced(pace, pause)

    assert waits[0] == pytest.approx(5 - 0.1)


async def test_late_timers_do_not_slow_an_answer_further() -> None:
    clock = Clock()
    begun_s = clock.now_s

    async def pause(seconds: float) -> None:
        clock.advance(max(0.0, seconds) + 0.004)

    await Tokens(100).paced(Pace(100, clock), pause)

    assert clock.now_s - begun_s == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("end", ["stop", "cancel", "leave"])
async def test_a_paced_answer_ends_at_once_when_it_is_ended(keyed, end: str) -> None:
    keyed.add("slow", tokens_per_second=0.01)
    engine = Endless()
    application = keyed.serve(engine)
    client = keyed.ask("slow")
    await client.until(1)
    (call,) = application.running.calls.values()

    getattr(call, end)()
    await client

    # 100 s a token: it was not waited for.
    assert engine.made <= 2
    await within(engine.was_left.wait())


async def test_a_whole_answer_is_slowed_as_well(keyed) -> None:
    keyed.add("slow", tokens_per_second=0.01)
    application = keyed.serve(Scripted("a b c"))
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    client = keyed.ask("slow", "/v1/chat/completions", body)
    while not (calls := list(application.running.calls.values())) or calls[0]._pause is None:
        await asyncio.sleep(0)

    assert not client.status
    client.leave()
    await client
