"""Which member gets a request: the least loaded one, or that of the session."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pool_servers import member_of

from torvyn.errors import InvalidInput, Unavailable


async def ask(pool, **options) -> int:
    return member_of((await pool.acomplete("Hi", **options)).text)


async def test_concurrent_requests_are_spread_evenly(trio, open_pool):
    pool = open_pool(trio)
    counts = Counter(await asyncio.gather(*(ask(pool) for _ in range(60))))
    assert len(counts) == 3
    assert max(counts.values()) - min(counts.values()) <= 2


async def test_requests_one_at_a_time_are_spread_too(trio, open_pool):
    pool = open_pool(trio)
    assert len({await ask(pool, max_tokens=1) for _ in range(9)}) > 1


async def test_a_session_stays_at_its_member(trio, open_pool):
    pool = open_pool(trio)
    for user in ("ann", "bob", "eve", "joe"):
        assert len({await ask(pool, user=user, max_tokens=1) for _ in range(5)}) == 1
    assert len({await ask(pool, user=f"u{at}", max_tokens=1) for at in range(20)}) == 3


async def test_two_pools_agree_on_the_member_of_a_session(trio, open_pool):
    one, other = open_pool(trio), open_pool(list(reversed(trio)))
    for at in range(8):
        names = {"extra": {"session_id": f"s{at}"}, "max_tokens": 1}
        assert await ask(one, **names) == await ask(other, **names)


async def test_a_session_leaves_a_member_that_is_overloaded(trio, open_pool):
    pool = open_pool(trio, max_in_flight=8)
    counts = Counter(await asyncio.gather(*(ask(pool, user="ann") for _ in range(18))))
    assert len(counts) == 3, "its own member would have to answer all of them"


async def test_without_affinity_a_session_goes_anywhere(trio, open_pool):
    pool = open_pool(trio, affinity=False)
    assert len(set(await asyncio.gather(*(ask(pool, user="ann") for _ in range(9))))) == 3


async def test_a_member_never_has_more_requests_than_its_limit(trio, open_pool):
    pool = open_pool(trio, max_in_flight=2)
    asking = [asyncio.ensure_future(ask(pool)) for _ in range(20)]
    most = 0
    while not all(task.done() for task in asking):
        most = max(most, *(member.in_flight for member in pool.members))
        await asyncio.sleep(0)
    assert len(await asyncio.gather(*asking)) == 20
    assert most == 2


async def test_a_full_queue_rejects_requests_at_once(trio, open_pool):
    pool = open_pool(trio, max_in_flight=1, max_waiting=1)
    results = await asyncio.gather(*(ask(pool) for _ in range(10)), return_exceptions=True)
    rejected = [error for error in results if isinstance(error, Unavailable)]
    assert {error.code for error in rejected} == {"engine.pool-full"}
    assert len(rejected) == 10 - 3 - 1 == pool.members.rejected


async def test_a_request_that_waits_too_long_is_rejected(trio, open_pool):
    pool = open_pool(trio[:1], max_in_flight=1, max_wait_s=0.01)
    results = await asyncio.gather(*(ask(pool) for _ in range(3)), return_exceptions=True)
    codes = Counter(getattr(error, "code", "answered") for error in results)
    assert codes == {"answered": 1, "engine.pool-full": 2}
    assert (pool.members.waiting, pool.members.in_flight) == (0, 0)


async def test_a_request_that_is_cancelled_while_it_waits_takes_no_place(trio, open_pool):
    pool = open_pool(trio[:1], max_in_flight=1)
    first, second = (asyncio.ensure_future(ask(pool)) for _ in range(2))
    while not pool.members.waiting:
        await asyncio.sleep(0)
    second.cancel()
    assert await first == 0
    assert await ask(pool) == 0
    assert (pool.members.waiting, pool.members.in_flight) == (0, 0)


def test_a_pool_without_members_or_a_bad_limit_is_refused(trio, open_pool):
    for options, message in (
        ({"members": []}, "`members` are missing"),
        ({"max_in_flight": 0}, "`max_in_flight` must be above 0"),
        ({"max_streams": 1}, "`max_streams` is not an option"),
    ):
        with pytest.raises(InvalidInput, match=message):
            open_pool(options.pop("members", trio), **options)
