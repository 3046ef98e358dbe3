"""A stop, a cancel or an interrupt ends the answer every time, whatever is being written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgi_client import Client, within
from scale import sample
from stopped_streams import LENGTH, Varied, goes_on_after_a_kill, stop_many
from stored_processes import begun, process

from nats_server import NatsServer
from torvyn.transport.sessions.shared import store as shared_store


@pytest.mark.parametrize("seed", range(sample(1, full=10)))
@pytest.mark.parametrize("kind", ["memory", "file", "shared"])
async def test_an_answer_that_is_stopped_ends(
    request: pytest.FixtureRequest, kind: str, seed: int
) -> None:
    store = "" if kind == "memory" else str(request.getfixturevalue(kind))
    await stop_many(store, sample(20, full=100), seed)


@pytest.mark.parametrize("seed", range(sample(4, full=200)))
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_no_other_process_continues_what_was_stopped_before_a_kill(
    store: str, seed: int, is_cancelled: bool
) -> None:
    assert not await goes_on_after_a_kill(store, seed, is_cancelled=is_cancelled)


async def test_a_stop_that_the_broker_cannot_store_is_no_success(
    own_broker: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_store, "BEGIN_S", 0.1)
    engine = Varied(0, (0.004,))
    async with process(engine, own_broker.url) as application:
        client = await begun(application, 2)
        path = f"/v1/streams/{client.frames_start_id()}"
        await asyncio.to_thread(own_broker.stop)
        refused: Any = await Client(application, path, method="DELETE")
        assert (refused.status, refused.json["error"]["code"]) == (503, "session.broker-away")
        await asyncio.to_thread(own_broker.start)
        await within(client)
    assert client.frames()[-1].finish[0].reason == "stop"
    assert engine.made[client.frames_start_id()] < LENGTH
