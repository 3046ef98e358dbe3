"""API keys at servers that share their sessions: one key, the same limits everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgi_client import PATIENCE_S, Client, Gated, within
from keyed_server import Keyed
from stored_processes import STATEFUL, killed

from torvyn.engine import Engine, Scripted
from torvyn.serve import Application
from torvyn.transport.sessions.servers import key_limits


@asynccontextmanager
async def servers(keyed: Keyed, store: str, *engines: Engine) -> AsyncIterator[list[Application]]:
    """Servers with the same keys and the same store, connected."""
    applications = [keyed.serve(engine, session_store=store) for engine in engines]
    try:
        for application in applications:
            await application.sessions.connect()
        yield applications
    finally:
        for application in applications:
            await application.sessions.aclose()


def ask(keyed: Keyed, name: str, server: Application, **request: Any) -> Client:
    headers = {"authorization": f"Bearer {keyed.keys[name]}", **request.pop("headers", {})}
    request = {"body": {"prompt": "Hi"}, **request}
    return Client(server, headers=headers, **request)


async def test_a_key_cannot_read_stop_or_observe_the_stream_of_another_tenant(
    keyed: Keyed, shared: str
) -> None:
    keyed.add("other")
    async with servers(keyed, shared, Scripted("one two"), Gated()) as (first, second):
        client = await ask(keyed, "first", first, body=STATEFUL)
        path = f"/v1/streams/{client.frames_start_id()}"
        tries = [("GET", {}), ("GET", {"observe": "1"}), ("DELETE", {})]
        for method, query in tries:
            refused = await ask(keyed, "other", second, path=path, method=method, query=query)
            assert refused.status == 404
        assert (await ask(keyed, "first", second, path=path, method="GET")).status == 200


async def test_the_streams_of_a_key_are_counted_over_all_servers(keyed: Keyed, shared: str) -> None:
    keyed.add("two", max_streams=2)
    engine = Gated()
    async with servers(keyed, shared, engine, engine) as (first, second):
        running = [ask(keyed, "two", server) for server in (first, second)]
        for client in running:
            await client.until(1)
        refused = [await ask(keyed, "two", server) for server in (first, second)]
        assert [one.json["error"]["code"] for one in refused] == ["transport.key-busy"] * 2
        running[0].leave()
        await within(running[0].task)
        engine.tokens.put_nowait(None)
        engine.tokens.put_nowait(None)
        assert (await ask(keyed, "two", second)).status == 200


async def test_a_client_may_send_its_next_request_to_another_server(
    keyed: Keyed, shared: str
) -> None:
    keyed.add("one", max_streams=1)
    async with servers(keyed, shared, Scripted("a"), Scripted("a")) as applications:
        for number in range(20):
            answer = await ask(keyed, "one", applications[number % 2])
            assert answer.status == 200
        # One task renews the entry of the key, however often its streams end and begin.
        for application in applications:
            assert len(application.sessions.cluster.control._tasks) <= 3  # type: ignore[union-attr]


async def test_of_many_requests_at_once_only_so_many_are_admitted(
    keyed: Keyed, shared: str
) -> None:
    keyed.add("three", max_streams=3)
    engines = [Gated() for _ in range(3)]
    async with servers(keyed, shared, *engines) as applications:
        asked = [ask(keyed, "three", server) for server in applications for _ in range(8)]
        refused = [one for one in asked if not (await _first_answer(one))]
        assert len(refused) == len(asked) - 3
        for one in asked:
            one.leave()
        await within(asyncio.gather(*(one.task for one in asked)))


async def _first_answer(client: Client) -> bool:
    await client.until(1)
    return client.status == 200


async def test_requests_per_minute_are_counted_over_all_servers(keyed: Keyed, shared: str) -> None:
    keyed.add("calm", requests_per_minute=3)
    async with servers(keyed, shared, Scripted("a"), Scripted("a")) as (first, second):
        answers = [await ask(keyed, "calm", one) for one in (first, second, first, second)]
    assert [one.status for one in answers] == [200, 200, 200, 429]
    assert answers[-1].json["error"]["code"] == "transport.key-rate"


async def test_the_streams_of_a_killed_server_do_not_count(keyed: Keyed, shared: str) -> None:
    keyed.add("one", max_streams=1)
    async with servers(keyed, shared, Gated(), Scripted("a")) as (first, second):
        client = ask(keyed, "one", first)
        await client.until(1)
        cluster = first.sessions.cluster
        assert cluster is not None
        await cluster.broker.close()
        assert (await ask(keyed, "one", second)).status == 200
        await killed(first, client)


async def test_the_entry_of_a_key_forgets_servers_that_were_killed(
    keyed: Keyed, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_limits, "RENEW_S", 0.05)
    keyed.add("calm", requests_per_minute=100)
    async with servers(keyed, shared, Gated(), Gated()) as (first, second):
        clients = [ask(keyed, "calm", server) for server in (first, second)]
        for client in clients:
            await client.until(1)
        assert await _servers_of_entries(second) == {_name(first), _name(second)}
        await killed(first, clients[0])
        async with asyncio.timeout(PATIENCE_S):
            while await _servers_of_entries(second) != {_name(second)}:
                await asyncio.sleep(0.01)
        clients[1].leave()
        await within(clients[1].task)


def _name(server: Application) -> str:
    assert server.sessions.cluster is not None
    return server.sessions.cluster.server


async def _servers_of_entries(server: Application) -> set[str]:
    """The servers that the entries of keys name."""
    assert server.sessions.cluster is not None
    counts = server.sessions.cluster._counts
    entries = [await counts._read(key) for key in counts._counts]
    return {name for entry, _ in entries for name in entry.streams}


async def test_servers_share_the_tokens_per_second_of_a_key(keyed: Keyed, shared: str) -> None:
    keyed.add("paced", tokens_per_second=1000)
    async with servers(keyed, shared, Gated(), Gated()) as (first, second):
        clients = [ask(keyed, "paced", server) for server in (first, second)]
        for client in clients:
            await client.until(1)
        async with asyncio.timeout(PATIENCE_S):
            while any(_rate(server) != 500 for server in (first, second)):
                await asyncio.sleep(0.01)
        for client in clients:
            client.leave()
            await within(client.task)


def _rate(server: Application) -> float:
    (call,) = server.running.calls.values()
    assert call.pace is not None
    return call.pace.rate
