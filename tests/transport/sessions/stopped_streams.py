"""Answers that are stopped at random moments: for tests and figures."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from asgi_client import Client, within
from stored_processes import begun, come_back, killed, process

from torvyn.engine import ChoiceStep, Engine, Request, Step
from torvyn.errors import DeadlineExceeded
from torvyn.serve import Application

LENGTH = 600
"""More tokens than an engine makes before a round has stopped it."""
AT_ONCE = 20


class Varied(Engine):
    """Waits in all ways between its tokens: not at all, for a turn of the loop, for a moment."""

    name = "varied"

    def __init__(self, seed: int, pauses_s: tuple[float, ...] = (0, 0, 0.001, 0.004)) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self._pauses_s = pauses_s
        self.made: Counter[str] = Counter()

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        pauses_s = self._rng.choices(self._pauses_s, k=7)
        for number in range(LENGTH):
            if number % 16 < 12:
                await asyncio.sleep(pauses_s[number % 7])
            self.made[request.id] += 1
            yield Step((ChoiceStep(0, text="x "),))
        yield Step((ChoiceStep(0, tokens=0, finish_reason="stop"),))


async def turns(rng: random.Random) -> None:
    for _ in range(rng.randrange(40)):
        await asyncio.sleep(0)
    await asyncio.sleep(rng.choice((0, 0, 0.002, 0.01)))


async def stop(rng: random.Random, servers: list[Application], id: str, owner: Application) -> str:
    """Ends the answer in one of the ways; returns the finish that it must have."""
    how = rng.choice(("stop", "cancel", "interrupt"))
    if how == "interrupt":
        call = owner.running.calls.get(id)
        if call is not None:
            call.fail(DeadlineExceeded("the deadline has passed", code="transport.deadline"))
        return "error"
    query = {"cancel": "1"} if how == "cancel" else {}
    path = f"/v1/streams/{id}"
    answer = await Client(rng.choice(servers), path, method="DELETE", query=query)
    assert answer.status in (200, 202), answer.json
    if "forgotten" in answer.json:
        return "forgotten"
    return "stop" if how == "stop" else "cancelled"


async def one_round(rng: random.Random, servers: list[Application], engine: Varied) -> bool:
    """Whether the answer was stopped before its end."""
    owner = rng.choice(servers)
    client = await begun(owner, 1)
    id = client.frames_start_id()
    await turns(rng)
    if rng.random() < 0.3:
        client.leave()
    expected = await stop(rng, servers, id, owner)
    is_over = engine.made[id] > LENGTH - 50
    session = owner.sessions._sessions.get(id)
    if expected == "forgotten" or session is None or session.task is None:
        return False
    await within(session.task)
    client.leave()
    if is_over:
        return False
    assert engine.made[id] < LENGTH
    end = session.buffer.take(session.buffer.next - 1, 1 << 20)[-1]
    assert f'"reason":"{expected}"'.encode() in end
    return True


async def stop_many(store: str, count: int, seed: int) -> None:
    """So many answers are stopped, at servers that share the store if they can; each must end."""
    rng, engine = random.Random(seed), Varied(seed)
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(process(engine, store, max_sessions=5000))
            for _ in range(2 if store.startswith("nats") else 1)
        ]
        stopped = 0
        while stopped < count:
            rounds = (one_round(rng, servers, engine) for _ in range(AT_ONCE))
            stopped += sum(await asyncio.gather(*rounds))


async def goes_on_after_a_kill(store: str, seed: int, *, is_cancelled: bool) -> bool:
    """Whether the next process continues an answer that was stopped before its server was killed,
    or ends it in another way."""
    rng, engine = random.Random(seed), Varied(seed, (0.001, 0.004))
    query = {"cancel": "1"} if is_cancelled else {}
    async with process(engine, store) as first:
        client = await begun(first, 2)
        id = client.frames_start_id()
        await turns(rng)
        stopped = await Client(first, f"/v1/streams/{id}", method="DELETE", query=query)
        await killed(first, client)
        made = engine.made[id]
    assert stopped.status == 202
    async with process(engine, store) as second:
        again = await come_back(second, client)
    if again.status == 204:  # it has read all of it
        return engine.made[id] != made
    reason = again.frames()[-1].finish[0].reason
    return engine.made[id] != made or reason != ("cancelled" if is_cancelled else "stop")
