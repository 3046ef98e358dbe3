"""An answer has one id: in its header, its frames, `/flows`, logs and spans. A client of the same
tenant stops the answer with it; it is never that of another answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Endless, Gated, serving, within
from keyed_server import Keyed
from websocket_client import START, Socket

from collector import running_collector
from torvyn._observe.otlp_exporter import OtlpExporter
from torvyn._observe.spans import Tracer
from torvyn.engine import Scripted, Service
from torvyn.serve import ServerSettings, app

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
STATEFUL = {**PROMPT_BODY, "stateful": True}
OWN = "req-" + "0123456789abcdef" * 2
"""An id of the form that servers make."""


async def begun(application: Any, body: Any = PROMPT_BODY, **headers: str) -> Client:
    """An answer whose start frame was sent."""
    path = "/v1/chat/completions" if "messages" in body else "/v1/streams"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client = Client(application, path, body, headers=named)
    await client.until(1)
    return client


def id_of(client: Client) -> str:
    return client.headers["x-request-id"]


async def stop(application: Any, id: str, **more: Any) -> Client:
    return await Client(application, f"/v1/streams/{id}", method="DELETE", **more)


@pytest.mark.promise("inference.stop")
@pytest.mark.parametrize("body", [PROMPT_BODY, CHAT, STATEFUL])
@pytest.mark.parametrize("chosen", [None, "order-7", "a" * 128])
async def test_the_id_of_the_header_stops_the_answer(body: Any, chosen: str | None) -> None:
    application = serving(Endless())
    headers = {} if chosen is None else {"x_request_id": chosen}
    client = await begun(application, body, **headers)

    stopped = await stop(application, id_of(client))
    await client

    assert (stopped.status, stopped.json) == (202, {"id": id_of(client), "stopped": True})
    if body is not CHAT:
        start, *_, end = client.frames()
        assert start.id == id_of(client)
        assert [(one.reason, one.stopped_by) for one in end.finish] == [("stop", "client")]
    assert (id_of(client) == chosen) is (chosen is not None and body is not STATEFUL)


@pytest.mark.promise("inference.stop")
@pytest.mark.parametrize("chosen", [{}, {"x_request_id": "order-7"}])
@pytest.mark.parametrize("body", [PROMPT_BODY, STATEFUL])
async def test_header_frames_flows_logs_and_spans_have_one_id(
    body: Any, chosen: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "torvyn.transport")
    with running_collector() as collector:
        exporter = OtlpExporter(collector.url, every_s=0.01, close_s=5.0)
        tracer = Tracer(exporter, sample_rate=1.0, latency_promote_s=3600.0)
        application = app({"chat": Service("chat", Scripted("a b"))}, ServerSettings(), tracer)
        client = await begun(application, body, **chosen)
        await client
        (span,) = await asyncio.to_thread(collector.until, 1)
        tracer.close()
    flows = (await Client(application, "/flows", method="GET")).json

    logged = {record.request_id for record in caplog.records if "stream" in record.path}  # type: ignore[attr-defined]
    ids = {id_of(client), client.frames()[0].id, span["attributes"]["torvyn.request_id"]}
    assert {one["id"] for one in flows["ended"]} == logged == ids == {id_of(client)}


@pytest.mark.promise("inference.stop")
async def test_two_running_answers_never_share_an_id() -> None:
    application = serving(Endless())
    clients = [await begun(application, x_request_id="mine") for _ in range(3)]

    ids = [id_of(client) for client in clients]
    assert (ids[0], len(set(ids))) == ("mine", 3)
    assert ids == [client.frames_start_id() for client in clients]
    for client in clients:
        assert (await stop(application, id_of(client))).status == 202
        await client
    again = await begun(application, x_request_id="mine")
    assert id_of(again) == "mine"
    again.leave()
    await within(again.task)


async def test_an_answer_that_waits_for_admission_has_its_id_already() -> None:
    engine = Gated()
    application = serving(engine, max_streams=1, admission_wait_s=20)
    clients = [Client(application, body=PROMPT_BODY, headers={"x-request-id": "mine"})]
    await within(engine.has_begun.wait())
    clients += [Client(application, body=PROMPT_BODY, headers={"x-request-id": "mine"})]
    for _ in clients:
        engine.tokens.put_nowait(None)

    ids = [id_of(await client) for client in clients]
    assert (ids[0], len(set(ids))) == ("mine", 2)


@pytest.mark.parametrize(
    "chosen", ["", "a b", "a/b", "..", ".", "-x", "a" * 129, "ä", "tvk_" + "x" * 43, OWN]
)
async def test_an_id_that_is_unfit_is_replaced(chosen: str) -> None:
    client = await Client(
        serving(Scripted("a")), body=PROMPT_BODY, headers={"x-request-id": chosen}
    )

    assert id_of(client) == client.frames()[0].id != chosen
    assert id_of(client).startswith("req-")


async def test_the_same_id_of_another_tenant_leads_to_the_own_answer_only(keyed: Keyed) -> None:
    keyed.add("own", tenant="a")
    keyed.add("other", tenant="b")
    keyed.serve(Endless())
    headers = {"x_request_id": "mine"}
    mine, theirs = [
        await begun(keyed.application, authorization=f"Bearer {keyed.keys[name]}", **headers)
        for name in ("own", "other")
    ]
    assert (id_of(mine), id_of(theirs) == "mine") == ("mine", False)

    refused = await keyed.ask("other", "/v1/streams/mine", method="DELETE")
    assert (refused.status, mine.task.done()) == (404, False)
    for name, client in (("own", mine), ("other", theirs)):
        stopped = await keyed.ask(name, f"/v1/streams/{id_of(client)}", method="DELETE")
        assert stopped.status == 202
        await client


async def test_every_stream_of_a_socket_has_an_id_of_its_own() -> None:
    application = serving(Endless())
    async with Socket(application, headers={"x-request-id": "socket"}) as socket:
        ids = []
        for stream_id in ("s", "t"):
            socket.say({**START, "stream_id": stream_id})
            ids.append((await socket.until_got("start", stream_id))["id"])
        for id, stream_id in zip(ids, ("s", "t"), strict=True):
            assert (await stop(application, id)).status == 202
            await socket.until_got("end", stream_id)

    assert len({*ids, "socket"}) == 3


async def test_a_response_that_resumes_an_answer_has_its_id() -> None:
    application = serving(Scripted("a b"))
    first = await Client(application, body=STATEFUL)
    again = await Client(
        application,
        f"/v1/streams/{id_of(first)}",
        method="GET",
        headers={"x-request-id": "reader"},
    )

    assert id_of(again) == id_of(first) == again.frames()[0].id
