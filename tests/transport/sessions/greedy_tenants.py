"""A tenant that takes whatever it can, beside another one: for tests and figures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from asgi_client import Client, Gated, within
from keyed_server import Keyed
from stored_processes import STATEFUL

from torvyn.engine import Engine
from torvyn.serve import Application
from torvyn.transport.settings import KiB

MiB = KiB * KiB
MAX_STREAMS = 4
SMALL: dict[str, Any] = {"session_room_bytes": 8 * MiB, "max_sessions": 40, "first_byte_wait_s": 0}
"""Two MiB for all prompts, half of which a tenant may take, and as many places."""


@asynccontextmanager
async def servers(keyed: Keyed, store: str, *engines: Engine) -> AsyncIterator[list[Application]]:
    keyed.add("calm", max_streams=MAX_STREAMS)
    applications = [keyed.serve(engine, session_store=store, **SMALL) for engine in engines]
    try:
        for application in applications:
            await application.sessions.connect()
        yield applications
    finally:
        for application in applications:
            await application.sessions.aclose()


def ask(keyed: Keyed, name: str, server: Application, **request: Any) -> Client:
    headers = {"authorization": f"Bearer {keyed.keys[name]}", **request.pop("headers", {})}
    return Client(server, headers=headers, **{"body": STATEFUL, **request})


def large(size: int) -> dict[str, Any]:
    return {**STATEFUL, "prompt": "x" * size}


async def fill(keyed: Keyed, servers: list[Application], rng: random.Random) -> list[Client]:
    """Stateful requests of the first key until each server has refused three; those that run."""
    running: list[Client] = []
    for server in servers:
        refused = 0
        while refused < 3:
            body = large(rng.choice((10, 3000, 50_000, 200_000)))
            client = ask(keyed, "first", server, body=body)
            await client.until(1)
            refused += client.status == 429
            if client.status == 200:
                running.append(client)
            else:
                code = client.json["error"]["code"]
                assert code in ("session.share-full", "session.too-many"), client.json
    return running


async def leave(*clients: Client) -> None:
    for client in clients:
        client.leave()
    await within(asyncio.gather(*(client.task for client in clients)))


async def harm(keyed: Keyed, store: str, seed: int) -> int:
    """How many streams of the other tenant were refused within its limits, or admitted beyond
    them, while the first fills what it can at two servers."""
    async with servers(keyed, store, Gated(), Gated()) as both:
        greedy = await fill(keyed, both, random.Random(seed))
        # A prompt of almost half a share, and more small ones than the key may run.
        first = ask(keyed, "calm", both[0], body=large(400_000))
        await first.until(1)
        asked = [ask(keyed, "calm", both[number % 2]) for number in range(9)]
        for one in asked:
            await one.until(1)
        running = [one for one in (first, *asked) if one.status == 200]
        refused = [one.json["error"]["code"] for one in (first, *asked) if one.status != 200]
        await leave(*greedy, *running)
    others = sum(code != "transport.key-busy" for code in refused)
    return abs(len(running) - MAX_STREAMS) + others
