"""What servers do regularly for the sessions that they share, and what they forget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from asgi_client import PATIENCE_S, Client, Gated, within
from stored_processes import begun, come_back, process

from torvyn._io.nats import ask
from torvyn._manifest.settings import resolve
from torvyn.errors import TorvynError
from torvyn.serve import Application, ServerSettings
from torvyn.testing import Clock
from torvyn.transport.sessions.servers import control, peers
from torvyn.transport.sessions.servers.cluster import Cluster
from torvyn.transport.sessions.servers.peers import Peers
from torvyn.transport.sessions.shared import housekeeping
from torvyn.transport.sessions.shared.address import bucket_stream
from torvyn.transport.sessions.shared.records import SessionRecord


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are renewed every few milliseconds."""
    monkeypatch.setattr(housekeeping, "_SHORTEST_S", 0.02)
    monkeypatch.setattr(housekeeping, "_AGAIN_S", 0.02)


def cluster_of(application: Application) -> Cluster:
    assert application.sessions.cluster is not None
    return application.sessions.cluster


async def record_of(application: Application, client: Client) -> SessionRecord:
    record = await cluster_of(application).store.records.get(client.frames_start_id())
    assert record is not None
    return record


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.01)


async def set_limits(application: Application, **limits: Any) -> None:
    """Changes the stream of the records at the broker."""
    cluster = cluster_of(application)
    name = bucket_stream(cluster.address.records_bucket)
    config = (await ask(cluster.broker, f"STREAM.INFO.{name}"))["config"]
    await ask(cluster.broker, f"STREAM.UPDATE.{name}", {**config, **limits})


async def test_a_refused_renewal_is_tried_again(shared: str, often: None) -> None:
    engine = Gated()
    async with process(engine, shared, session_ttl_s=0.04) as application:
        client = await begun(application, 1)
        await set_limits(application, max_msg_size=1)
        # Long enough for a renewal, which the broker refuses.
        await asyncio.sleep(0.1)
        refused = await record_of(application, client)
        await asyncio.sleep(0.1)
        assert await record_of(application, client) == refused
        await set_limits(application, max_msg_size=-1)

        async def is_renewed() -> bool:
            return (await record_of(application, client)).revision > refused.revision

        await until(is_renewed)
        engine.tokens.put_nowait(None)
        await within(client)
    assert client.frames()[-1].finish[0].reason == "stop"


async def test_a_record_that_expired_before_it_was_renewed_is_written_again(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await begun(first, 1)
        await cluster_of(first).store.records.delete(client.frames_start_id())
        await cluster_of(first).store.renew()
        client.leave()
        again = come_back(second, client)
        await again.until(1)
        engine.tokens.put_nowait(None)
        await within(again)
    assert again.frames()[-1].finish[0].reason == "stop"


async def test_a_server_does_not_renew_what_it_has_lost(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await begun(first, 1)
        await second.sessions.connect()
        cluster_of(second).peers.mark_gone(cluster_of(first).server)
        await come_back(second, client)
        engine.tokens.put_nowait("two")
        await within(client)
        assert not cluster_of(first).store.owned


async def test_servers_that_are_gone_are_forgotten_after_a_while(shared: str) -> None:
    async with process(Gated(), shared) as application:
        await application.sessions.connect()
        clock = Clock()
        peers = Peers(cluster_of(application).control, clock)
        for number in range(1000):
            peers.mark_gone(f"server-{number}")
            clock.advance(1)
        assert (peers.is_gone("server-999"), peers.is_gone("server-0")) == (True, False)
        assert len(peers._gone) <= 60


def test_a_server_that_hangs_is_noticed_within_two_seconds() -> None:
    asks_s = peers._MISSES * control.ALIVE_S + (peers._MISSES - 1) * peers._AGAIN_S
    assert peers._EVERY_S + asks_s < 2


@pytest.mark.parametrize(("servers", "sessions"), [(2, 4), (6, 4), (2, 12), (6, 12)])
async def test_housekeeping_asks_for_what_a_server_owns(
    shared: str, monkeypatch: pytest.MonkeyPatch, servers: int, sessions: int
) -> None:
    requests: list[str] = []
    async with AsyncExitStack() as stack:
        applications = [
            await stack.enter_async_context(process(Gated(), shared)) for _ in range(servers)
        ]
        owner, *others = applications
        clients = [await begun(owner, 1) for _ in range(sessions)]
        for application in others:
            await application.sessions.connect()
        for application in applications:
            await cluster_of(application)._housekeeping.sweep()  # one of them looks
        for application in applications:
            note_publishes(cluster_of(application).broker.client, requests)
        for application in applications:
            await cluster_of(application).store.renew()
            await cluster_of(application)._housekeeping.sweep()
        # A record per session; for each server whether another one has looked; and that one's look.
        assert len(requests) <= sessions + servers + 4
        for client in clients:
            client.leave()
            await within(client.task)


def note_publishes(client: Any, requests: list[str]) -> None:
    send = client._send_publish

    async def noted(subject: str, *rest: Any) -> None:
        requests.append(subject)
        await send(subject, *rest)

    client._send_publish = noted


async def test_frames_and_prompts_without_a_record_are_deleted_by_one_of_the_servers(
    shared: str,
) -> None:
    async with process(Gated(), shared) as first, process(Gated(), shared) as second:
        client = await begun(first, 1)
        await second.sessions.connect()
        store = cluster_of(second).store
        await store.prompts.put(client.frames_start_id(), "what was asked")
        await cluster_of(first).store.records.delete(client.frames_start_id())
        cluster_of(first).store.disown(client.frames_start_id())
        for _ in range(3):
            for application in (first, second):
                await cluster_of(application)._housekeeping.sweep()
        assert (await store.log.ids(), await store.prompts.ids()) == ([], [])
        client.leave()
        await within(client.task)


async def test_a_server_that_is_heard_of_again_is_not_gone(shared: str) -> None:
    async with process(Gated(), shared) as first, process(Gated(), shared) as second:
        await first.sessions.connect()
        await second.sessions.connect()
        cluster_of(second).peers.mark_gone(cluster_of(first).server)
        client = await begun(first, 1)
        # The first server sends a request, so it is alive.
        await cluster_of(first).control.ask(cluster_of(second).server, "here")
        client.leave()
        again = come_back(second, client)
        await again.until(1)
        assert second.sessions.read_here(client.frames_start_id()) is not None
        again.leave()
        await within(again)


async def test_the_broker_is_asked_for_as_many_replicas_as_the_cluster_table_says(
    shared: str,
) -> None:
    values = resolve(None, environ={"TORVYN_CLUSTER__STREAM_REPLICAS": "3"})
    settings = ServerSettings.of(values)
    assert settings.stream_replicas == 3
    async with process(Gated(), shared, stream_replicas=settings.stream_replicas) as application:
        # A broker of one server has no place for three.
        with pytest.raises(TorvynError, match="replicas > 1 not supported"):
            await application.sessions.connect()
