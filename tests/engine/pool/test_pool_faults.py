"""Members that fail: before the first text another one answers, afterwards the answer fails."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pool_servers import member_of, servers

from fake_upstream import running
from torvyn.engine.pool.engine import Pool
from torvyn.errors import TorvynError

WORDS = 30


async def outcome(pool: Pool) -> str:
    """The member that answered, or the code of the error; never a mixture of two members."""
    text, finishes = "", 0
    try:
        async for delta in pool.generate("Hi"):
            text += delta.text
            finishes += delta.finish_reason is not None
    except TorvynError as error:
        assert finishes == 1
        if text:
            member_of(text)
        return error.code
    assert finishes == 1
    assert len(text.split()) == WORDS
    return str(member_of(text))


async def test_requests_to_a_member_that_is_gone_are_answered_by_others(tmp_path, open_pool):
    with servers(tmp_path, 2, words=WORDS, delay="0ms") as made:
        pool = open_pool(made, health_interval_s=60)
        # Behind the first check, so that the next one does not find it before the requests do.
        while not all(member.is_up for member in pool.members):
            await asyncio.sleep(0.001)
        made[0].kill()
        outcomes = await asyncio.gather(*(outcome(pool) for _ in range(20)))
        assert set(outcomes) == {"1"}
        assert pool.members.retries >= 1


async def test_a_member_that_dies_in_the_middle_ends_its_answers_as_errors(tmp_path, open_pool):
    with servers(tmp_path, 2, words=WORDS, delay="20ms") as made:
        pool = open_pool(made, health_interval_s=60)
        asking = [asyncio.ensure_future(outcome(pool)) for _ in range(10)]
        while sum(member.in_flight for member in pool.members) < 10:
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        made[0].kill()
        counts = Counter(await asyncio.gather(*asking))
        assert counts == {"1": 5, "engine.upstream-cut": 5}


async def test_a_member_that_dies_before_its_first_text_is_replaced(tmp_path, open_pool):
    with servers(tmp_path, 2, words=WORDS, delay="0ms", first_delay="500ms") as made:
        pool = open_pool(made, health_interval_s=60)
        asking = [asyncio.ensure_future(outcome(pool)) for _ in range(10)]
        while sum(member.in_flight for member in pool.members) < 10:
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        made[0].kill()
        assert Counter(await asyncio.gather(*asking)) == {"1": 10}
        assert pool.members.retries == 5


async def test_a_member_that_returns_gets_requests_again(tmp_path, open_pool):
    with servers(tmp_path, 2, words=WORDS, delay="0ms") as made:
        pool = open_pool(made)
        made[0].kill()
        assert set(await asyncio.gather(*(outcome(pool) for _ in range(6)))) == {"1"}
        made[0].start()
        async with asyncio.timeout(20):
            while set(await asyncio.gather(*(outcome(pool) for _ in range(6)))) != {"0", "1"}:
                await asyncio.sleep(0.05)


async def test_without_any_member_a_request_waits_and_then_fails(tmp_path, open_pool):
    with servers(tmp_path, 1, words=WORDS, delay="0ms") as made:
        pool = open_pool(made, max_wait_s=0.5)
        made[0].kill()
        assert await outcome(pool) in ("engine.upstream-down", "engine.pool-down")
        assert await outcome(pool) == "engine.pool-down"


async def test_without_a_member_a_request_fails_at_once_until_one_is_back(tmp_path, open_pool):
    with servers(tmp_path, 1, words=WORDS, delay="0ms") as made:
        pool = open_pool(made, max_wait_s=3600)
        made[0].kill()
        async with asyncio.timeout(20):
            while pool.to_dict()["members"][0]["state"] != "down":
                await asyncio.sleep(0.01)
        assert await asyncio.wait_for(outcome(pool), 10) == "engine.pool-down"
        await asyncio.to_thread(made[0].start)
        async with asyncio.timeout(20):
            while await outcome(pool) != "0":
                await asyncio.sleep(0.01)


async def rejects(exchange) -> None:
    await exchange.status(400, '{"error": {"message": "no"}}')


async def is_busy(exchange) -> None:
    await exchange.status(503 if exchange.body else 200, "{}")


def test_a_request_that_is_invalid_is_sent_to_one_member_only(open_pool):
    with running(rejects) as one, running(rejects) as other:
        pool = open_pool([one, other], health_interval_s=60)
        with pytest.raises(TorvynError, match="answered 400"):
            pool.complete("Hi")
        sent = [each for each in (*one.exchanges, *other.exchanges) if each.body]
        assert (len(sent), pool.members.retries) == (1, 0)
        assert {member.breaker.state for member in pool.members} == {"closed"}


def test_a_busy_member_rests_and_is_not_taken_for_broken(open_pool):
    with running(is_busy) as one:
        pool = open_pool([one], health_interval_s=60, retries=0)
        with pytest.raises(TorvynError, match="answered 503"):
            pool.complete("Hi")
        (member,) = pool.members
        assert (member.breaker.state, member.outcomes) == ("closed", {"busy": 1})
