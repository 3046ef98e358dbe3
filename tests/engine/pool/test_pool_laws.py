"""Laws of a pool whose members are restarted and killed under load, by a seed.

Every request ends exactly once, with the text of one member; a rolling restart breaks none.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from pool_servers import Server, member_of, servers

from torvyn.engine.pool.engine import Pool
from torvyn.errors import TorvynError

WORDS = 40
CLIENTS = 8
ROUNDS = 4
ENDINGS = {"whole", "engine.upstream-cut", "engine.upstream-down", "engine.pool-down"}


async def ending(pool: Pool, user: str) -> str:
    """How a request ended: `whole`, or the code of its error."""
    text, finishes = "", []
    try:
        async for delta in pool.generate("Hi", user=user):
            text += delta.text
            finishes += [delta.finish_reason] if delta.finish_reason else []
    except TorvynError as error:
        assert finishes == ["error"]
        assert not text or member_of(text) >= 0
        return error.code
    assert (finishes, len(text.split())) == (["stop"], WORDS)
    assert member_of(text) >= 0
    return "whole"


class Clients:
    """Ask again and again until the block is left."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.endings: Counter[str] = Counter()
        self.begun = 0
        self._is_over = False

    async def __aenter__(self) -> Clients:
        self._tasks = [asyncio.ensure_future(self._ask(f"user{at}")) for at in range(CLIENTS)]
        return self

    async def __aexit__(self, *failure: object) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)
        assert sum(self.endings.values()) == self.begun

    async def _ask(self, user: str) -> None:
        while not self._is_over:
            self.begun += 1
            self.endings[await ending(self.pool, user)] += 1


async def restart_in_order(pool: Pool, server: Server) -> None:
    """As `torvyn pool drain`, a restart and `torvyn pool resume` do."""
    await asyncio.wrap_future(pool.change(lambda: pool.membership.drain(server.url)))
    while pool.members.find(server.url).in_flight:
        await asyncio.sleep(0.01)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    await asyncio.wrap_future(pool.change(lambda: pool.membership.resume(server.url)))


async def until_up(pool: Pool) -> None:
    async with asyncio.timeout(30):
        while any(member["state"] != "up" for member in pool.to_dict()["members"]):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(2))
async def test_a_rolling_restart_of_all_members_breaks_no_answer(tmp_path, open_pool, seed):
    with servers(tmp_path, 3, words=WORDS) as made:
        pool = open_pool(made)
        random.Random(seed).shuffle(made)
        async with Clients(pool) as clients:
            for server in made:
                await restart_in_order(pool, server)
                await until_up(pool)
        assert set(clients.endings) == {"whole"}
        assert pool.members.in_flight == pool.members.waiting == 0


@pytest.mark.parametrize("seed", range(2))
async def test_with_members_killed_at_random_every_request_ends_once(tmp_path, open_pool, seed):
    rng = random.Random(seed)
    with servers(tmp_path, 3, words=WORDS) as made:
        pool = open_pool(made)
        async with Clients(pool) as clients:
            for _ in range(ROUNDS):
                server = rng.choice(made)
                await asyncio.sleep(rng.uniform(0.05, 0.3))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
        assert set(clients.endings) <= ENDINGS
        assert clients.endings["whole"] > CLIENTS
        assert pool.members.in_flight == pool.members.waiting == 0
