"""Draining and replacing members under load: no answer is broken."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from pool_servers import Server, member_of

from torvyn.engine.pool.engine import Pool
from torvyn.errors import InvalidInput, Unavailable

WORDS = 20
ROUNDS = 8


async def asked(pool: Pool) -> int:
    completion = await pool.acomplete("Hi")
    assert (completion.finish_reason, len(completion.text.split())) == ("stop", WORDS)
    return member_of(completion.text)


@contextlib.asynccontextmanager
async def load(pool: Pool, clients: int = 6) -> AsyncIterator[list[int]]:
    """Clients that ask again and again; every answer must be whole."""
    answers: list[int] = []
    is_over = False

    async def client() -> None:
        while not is_over:
            answers.append(await asked(pool))

    asking = [asyncio.ensure_future(client()) for _ in range(clients)]
    try:
        yield answers
    finally:
        is_over = True
        await asyncio.gather(*asking)


async def change(pool: Pool, what: str, *arguments: str) -> None:
    method = getattr(pool.membership, what)
    await asyncio.wrap_future(pool.change(lambda: method(*arguments)))


async def left(pool: Pool, server: Server) -> None:
    while any(member.url == server.url for member in pool.members):
        await asyncio.sleep(0.01)


async def test_a_drained_member_gets_no_more_requests_and_ends_those_it_has(trio, open_pool):
    pool = open_pool(trio)
    running = [asyncio.ensure_future(asked(pool)) for _ in range(9)]
    while pool.members.in_flight < 9:
        await asyncio.sleep(0)
    await change(pool, "drain", trio[0].url)
    assert Counter(await asyncio.gather(*running))[0] == 3
    assert 0 not in await asyncio.gather(*(asked(pool) for _ in range(9)))
    await change(pool, "resume", trio[0].url)
    assert 0 in await asyncio.gather(*(asked(pool) for _ in range(9)))


async def test_rolling_replacement_breaks_no_answer(trio, open_pool):
    rng = random.Random(15)
    pool = open_pool(trio[:2])
    serving, spare = trio[:2], trio[2]
    async with load(pool) as answers:
        for _ in range(ROUNDS):
            old = serving.pop(rng.randrange(2))
            await change(pool, "replace", old.url, spare.url)
            await left(pool, old)
            serving.append(spare)
            spare = old
    assert set(answers) == {0, 1, 2}
    assert [member.outcomes["failed"] for member in pool.members] == [0, 0]


async def test_a_replacement_that_is_not_well_changes_nothing(trio, open_pool):
    pool = open_pool(trio[:1], start_timeout_s=0.3)
    with pytest.raises(Unavailable, match="was not well"):
        await change(pool, "replace", trio[0].url, "http://127.0.0.1:9/v1")
    assert await asked(pool) == 0


async def test_a_member_that_leaves_goes_when_its_last_answer_has_ended(trio, open_pool):
    pool = open_pool(trio[:2])
    async with load(pool) as answers:
        while set(answers) != {0, 1}:
            await asyncio.sleep(0.01)
        await change(pool, "remove", trio[0].url)
        await left(pool, trio[0])
    assert [member.url for member in pool.members] == [trio[1].url]


async def test_an_unknown_member_and_a_fixed_pool_are_errors(trio, open_pool):
    pool = open_pool(trio)
    with pytest.raises(InvalidInput, match="has no member `gpu9`"):
        await change(pool, "drain", "gpu9")
    with pytest.raises(InvalidInput, match="fixed addresses"):
        await change(pool, "replace_all")
