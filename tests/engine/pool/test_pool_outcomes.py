"""How answers end counts for who gets the next request, not only how many are in flight."""

from __future__ import annotations

import asyncio
import heapq
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from fake_upstream import DONE, HELLO, Exchange, delta, running, says, status
from torvyn.engine.openai.engine import OpenAI
from torvyn.engine.pool.engine import Pool
from torvyn.engine.pool.limits import Limits
from torvyn.engine.pool.member import Member, Outcome
from torvyn.engine.pool.members import Lease, Members
from torvyn.errors import InvalidInput, TorvynError

CLIENTS = 16
ANSWER_S = 10
Behaves = Callable[[int, int], Outcome]
"""How the member of this number answers the request of that number."""


def three_members(**limits: float) -> Members:
    members = Members(Limits(**limits))  # type: ignore[arg-type]
    for port in (1, 2, 3):
        url = f"http://127.0.0.1:{port}/v1"
        members.add(Member(url, OpenAI(base_url=url, model="m", api_key=""), 64))
    return members


async def answered(
    members: Members, requests: int, behaves: Behaves, sessions: int = 0
) -> Counter[int]:
    """How many requests each member got, of clients that each ask again at once. An answer takes a
    while; whatever else a member does takes no time."""
    places = {member.name: place for place, member in enumerate(members)}
    counts: Counter[int] = Counter()
    running: list[tuple[float, int, Lease, Outcome]] = []
    now_s = 0.0
    for number in range(requests):
        if len(running) == CLIENTS:
            now_s, _, lease, outcome = heapq.heappop(running)
            members.release(lease, outcome)
        session = f"user{number % sessions}" if sessions else None
        lease = await members.acquire(session)
        place = places[lease.member.name]
        counts[place] += 1
        outcome = behaves(place, number)
        ends_s = now_s + (ANSWER_S + random.Random(number).random() if outcome == "done" else 0)
        heapq.heappush(running, (ends_s, number, lease, outcome))
    for _, _, lease, outcome in running:
        members.release(lease, outcome)
    return counts


@pytest.mark.parametrize("outcome", ["empty", "refused"])
@pytest.mark.parametrize("sessions", [0, 5, 100])
async def test_a_member_that_answers_nothing_gets_few_requests(outcome, sessions) -> None:
    members = three_members()
    counts = await answered(
        members, 1000, lambda member, _: outcome if member == 0 else "done", sessions
    )
    assert counts[0] <= 100

    # It works again: after a while it has its share.
    await answered(members, 1000, lambda member, _: "done", sessions)
    counts = await answered(members, 1000, lambda member, _: "done", sessions=0)
    assert min(counts.values()) >= 250


@pytest.mark.parametrize("percent", [10, 50, 90, 100])
@pytest.mark.parametrize("outcome", ["empty", "refused"])
async def test_requests_that_no_member_answers_are_spread(percent, outcome) -> None:
    dice = random.Random(percent)
    bad = {number for number in range(3000) if dice.randrange(100) < percent}
    counts = await answered(
        three_members(), 3000, lambda _, number: outcome if number in bad else "done"
    )
    assert min(counts.values()) >= 300


@pytest.mark.parametrize("state", ["down", "open"])
async def test_without_a_member_that_is_well_a_request_fails_at_once(state) -> None:
    members = three_members(max_wait_s=3600)
    for member in members:
        if state == "down":
            member.is_up = False
        else:
            member.breaker.fail(is_gone=True)
    with pytest.raises(TorvynError) as caught:
        await asyncio.wait_for(members.acquire(None), 10)
    assert caught.value.code == "engine.pool-down"
    assert (members.waiting, members.rejected) == (0, 1)


async def test_a_request_that_waits_fails_when_the_last_member_is_down() -> None:
    members = three_members(max_wait_s=3600, max_in_flight=64)
    first, *others = members
    for member in others:
        member.is_up = False
    first.limit = 1
    await members.acquire(None)
    waiting = asyncio.ensure_future(members.acquire(None))
    while not members.waiting:
        await asyncio.sleep(0)
    first.is_up = False
    with pytest.raises(TorvynError) as caught:
        await asyncio.wait_for(waiting, 10)
    assert caught.value.code == "engine.pool-down"


async def test_a_request_waits_for_a_member_that_drains() -> None:
    members = three_members(max_wait_s=3600)
    for member in members:
        member.is_draining = True
    waiting = asyncio.ensure_future(members.acquire(None))
    while not members.waiting:
        await asyncio.sleep(0)
    next(iter(members)).is_draining = False
    members.look()
    await asyncio.wait_for(waiting, 10)


EMPTY = says(HELLO[0], delta(finish="stop"), DONE)
BAD = {
    "empty": EMPTY,
    "400": status(400, '{"error": {"message": "no"}}'),
    "422": status(422, '{"detail": "no"}'),
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("client", ["native", "aiohttp"])
@pytest.mark.parametrize("kind", BAD)
def test_a_real_member_that_answers_nothing_gets_few_requests(stack, kind, client) -> None:
    good = [stack.enter_context(running(says(*HELLO))) for _ in range(2)]
    bad = stack.enter_context(running(BAD[kind]))
    urls = [upstream.url for upstream in (bad, *good)]
    pool = Pool(
        members=urls, model="m", api_key="", client=client, health_path="/", health_interval_s=60
    )
    stack.callback(pool.close)

    async def ask() -> None:
        for _ in range(25):
            with suppress(InvalidInput):
                await pool.acomplete("Hi")

    async def all_ask() -> None:
        await asyncio.gather(*(ask() for _ in range(8)))

    asyncio.run(all_ask())
    member = pool.members.find(bad.url)
    assert member.outcomes["empty" if kind == "empty" else "refused"] <= 60


@pytest.mark.parametrize("is_noticed", [True, False])
def test_what_a_busy_member_says_is_kept_when_the_others_are_down(stack, is_noticed) -> None:
    limited = status(429, '{"error": {"message": "no", "code": "slow_down"}}', "Retry-After: 7")

    async def reply(exchange: Exchange) -> None:
        if exchange.body and not is_noticed:
            down.is_up = None  # The other member is tried too.
        await limited(exchange)

    busy = stack.enter_context(running(reply))
    closed = stack.enter_context(closing(socket.socket()))
    closed.bind(("127.0.0.1", 0))  # Nothing listens there.
    urls = [busy.url, f"http://127.0.0.1:{closed.getsockname()[1]}/v1"]
    pool = Pool(members=urls, model="m", api_key="", health_interval_s=60)
    stack.callback(pool.close)
    down = pool.members.find(urls[1])
    while down.is_up is None:
        time.sleep(0.001)
    with pytest.raises(TorvynError) as caught:
        pool.complete("Hi")
    refused = caught.value.reply
    assert refused is not None
    assert (refused.status, refused.code) == (429, "slow_down")
    assert refused.headers["retry-after"] == "7"
    assert down.outcomes == ({} if is_noticed else {"gone": 1})
