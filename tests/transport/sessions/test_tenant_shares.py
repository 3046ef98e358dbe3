"""One tenant fills whatever it can: the streams and limits of the others stay as they are."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from asgi_client import Gated
from greedy_tenants import MAX_STREAMS, MiB, ask, fill, harm, large, leave, servers
from keyed_server import Keyed
from scale import sample
from stored_processes import STATEFUL, WORDS, assert_whole, come_back, killed

from torvyn._io.nats import ask as ask_broker
from torvyn.engine import Scripted
from torvyn.serve import Application
from torvyn.transport.access.caller import Caller
from torvyn.transport.rejection import Rejection
from torvyn.transport.sessions.shared.address import bucket_stream
from torvyn.transport.settings import KiB


@pytest.mark.parametrize("seed", range(sample(2, full=40)))
async def test_a_tenant_that_fills_the_store_leaves_the_others_theirs(
    keyed: Keyed, shared: str, seed: int
) -> None:
    assert await harm(keyed, shared, seed) == 0


async def test_a_stream_is_taken_over_while_another_tenant_fills_the_store(
    keyed: Keyed, shared: str
) -> None:
    words = Scripted(WORDS, delay=0.03)
    async with servers(keyed, shared, words, words, Gated()) as all_servers:
        first, second, third = all_servers
        client = ask(keyed, "calm", first, body=large(300_000))
        await client.until(2)
        await killed(first, client)
        greedy = await fill(keyed, [third], random.Random(0))
        headers = {"authorization": f"Bearer {keyed.keys['calm']}"}
        again = await come_back(second, client, headers=headers)
        assert again.status == 200
        assert_whole(client, again)
        await leave(*greedy)


@pytest.mark.parametrize("seed", range(sample(1, full=50)))
async def test_servers_give_a_tenant_no_more_than_its_share_together(
    keyed: Keyed, shared: str, seed: int
) -> None:
    rng = random.Random(seed)
    async with servers(keyed, shared, Gated(), Gated()) as both:
        shares = [one.sessions.cluster.store.shares for one in both]  # type: ignore[union-attr]
        share_bytes = MiB
        taken: list[tuple[Any, int]] = []

        async def use() -> None:
            share, size = rng.choice(shares), rng.choice((4096, 50_000, 300_000))
            try:
                await share.take("a", size)
            except Rejection:
                return
            taken.append((share, size))
            assert sum(each for _, each in taken) <= share_bytes
            await asyncio.sleep(rng.choice((0, 0.001)))
            if rng.random() < 0.7:
                taken.remove((share, size))
                share.give_back("a", size)

        for _ in range(3):
            await asyncio.gather(*(use() for _ in range(12)))
        for share, size in taken:
            share.give_back("a", size)
        taken.clear()
        # Everything is free again, for either server.
        await shares[seed % 2].take("a", share_bytes)


async def set_limits_stream(server: Application, **limits: Any) -> None:
    """Changes the stream at the broker that counts."""
    cluster = server.sessions.cluster
    assert cluster is not None
    name = bucket_stream(cluster.address.limits_bucket)
    config = (await ask_broker(cluster.broker, f"STREAM.INFO.{name}"))["config"]
    await ask_broker(cluster.broker, f"STREAM.UPDATE.{name}", {**config, **limits})


@pytest.mark.parametrize("body", [{"prompt": "Hi"}, STATEFUL])
async def test_no_request_of_a_limited_key_runs_while_the_broker_refuses_to_count(
    keyed: Keyed, shared: str, body: dict[str, Any]
) -> None:
    async with servers(keyed, shared, Gated(), Gated()) as both:
        await set_limits_stream(both[0], max_msg_size=1)
        refused = [await ask(keyed, "calm", server, body=body) for server in both * 3]
        assert {one.status for one in refused} == {503}
        assert {one.json["error"]["code"] for one in refused} == {"transport.limits-unavailable"}
        await set_limits_stream(both[0], max_msg_size=-1)
        asked = [ask(keyed, "calm", both[number % 2], body=body) for number in range(10)]
        for one in asked:
            await one.until(1)
        assert sum(one.status == 200 for one in asked) == MAX_STREAMS
        await leave(*asked)


async def test_a_stream_is_taken_over_while_the_broker_refuses_to_count(
    keyed: Keyed, shared: str
) -> None:
    keyed.add("free")
    words = Scripted(WORDS, delay=0.03)
    async with servers(keyed, shared, words, words) as (first, second):
        client = ask(keyed, "free", first, body=large(300_000))
        await client.until(2)
        await killed(first, client)
        await set_limits_stream(second, max_msg_size=1)
        headers = {"authorization": f"Bearer {keyed.keys['free']}"}
        again = await come_back(second, client, headers=headers)
        assert_whole(client, again)


async def test_ended_streams_make_room_for_new_ones_of_their_tenant(
    keyed: Keyed, shared: str
) -> None:
    keyed.add("busy")
    async with servers(keyed, shared, Scripted("a")) as (server,):
        kept = await ask(keyed, "calm", server, body=large(300_000))
        for _ in range(12):
            assert (await ask(keyed, "busy", server, body=large(300_000))).status == 200
        assert (
            server.sessions.get(kept.frames_start_id(), caller_of(keyed, server, "calm"))
            is not None
        )


def caller_of(keyed: Keyed, server: Application, name: str) -> Caller:
    return server.authenticator.identify({"x-api-key": keyed.keys[name]})


@pytest.mark.parametrize("kind", ["file", "shared"])
async def test_a_prompt_that_is_too_large_to_store_is_refused(
    request: pytest.FixtureRequest, keyed: Keyed, kind: str
) -> None:
    store = str(request.getfixturevalue(kind))
    server = keyed.serve(Scripted("a"), session_store=store, session_prompt_bytes=10_000)
    try:
        refused = await ask(keyed, "first", server, body=large(20_000))
        code = refused.json["error"]["code"]
        assert (refused.status, code) == (413, "session.prompt-too-large")
        plain = {**large(20_000), "stateful": False}
        assert (await ask(keyed, "first", server, body=plain)).status == 200
    finally:
        await server.sessions.aclose()


@pytest.mark.parametrize("kind", ["memory", "file", "shared"])
async def test_one_tenant_takes_no_more_than_its_share_of_the_places(
    request: pytest.FixtureRequest, keyed: Keyed, kind: str
) -> None:
    store = None if kind == "memory" else str(request.getfixturevalue(kind))
    keyed.add("other")
    server = keyed.serve(Gated(), session_store=store, max_sessions=20, session_share=0.25)
    try:
        asked = [ask(keyed, "first", server) for _ in range(20)]
        for one in asked:
            await one.until(1)
        assert [one.status for one in asked] == [200] * 5 + [429] * 15
        other = ask(keyed, "other", server)
        await other.until(1)
        assert other.status == 200
        await leave(*asked, other)
    finally:
        await server.sessions.aclose()


async def test_a_tenant_with_many_sessions_leaves_the_others_their_memory(keyed: Keyed) -> None:
    keyed.add("other")
    answer = ("x" * 400 + " ") * 200
    limits = {"session_bytes": 32 * KiB, "session_memory_bytes": MiB, "chunk_bytes": KiB}
    server = keyed.serve(Scripted(answer), **limits)
    kept = await ask(keyed, "other", server)
    for _ in range(100):
        await ask(keyed, "first", server)
    session = server.sessions.get(kept.frames_start_id(), caller_of(keyed, server, "other"))
    assert session is not None
    assert session.buffer.size_bytes > 0.8 * 32 * KiB
