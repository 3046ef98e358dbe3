"""`/flows` and `/flows/{id}`: running and recent answers, with their element counts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving, within
from keyed_server import Keyed
from websocket_client import START, Socket

import torvyn
from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse
from torvyn.components import Blocklist, Redact
from torvyn.engine import Scripted, Service
from torvyn.engine.prompt.prompt_flow import PromptGuard
from torvyn.serve import Application, app
from torvyn.transport import services
from torvyn.transport.telemetry.instances import MAX_ENDED, MAX_LISTED, PER_TURN

AUDITED = """
[torvyn]
name = "audited"
version = "0.1.0"
contract_version = "0.1.0"
[flow.chat]
nodes.engine = { component = "engine:scripted" }
nodes.fork = { component = "redact" }
nodes.policy = { component = "redact" }
nodes.audit = { component = "tcp", config = "127.0.0.1:PORT" }
nodes.out = { component = "response" }
edges = [
    { from = "engine", to = "fork" },
    { from = "fork", to = "policy" },
    { from = "fork", to = "audit" },
    { from = "policy", to = "out" },
]
"""


def guarded(engine: Any) -> Application:
    words = {"words": ["badword"], "mode": "stream", "action": "replace"}
    service = Service(
        "chat",
        engine,
        make_flow=lambda: torvyn.Flow(Blocklist(words)),
        prompt_guard=PromptGuard(lambda: torvyn.Flow(Redact())),
    )
    return app({"chat": service})


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, and nobody else can."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def auditing(closed_port: int) -> Iterator[Application]:
    """Copies its answers to a TCP server."""
    manifest = parse(AUDITED.replace("PORT", str(closed_port)))
    opened = services.of_plans(services.served_plans(ProjectLinker(manifest)))
    yield app(opened)
    services.close(opened)


async def seen(application: Application, id: str = "", **more: Any) -> Any:
    path = f"/flows/{id}" if id else "/flows"
    return (await Client(application, path, method="GET", **more)).json


async def test_a_running_answer_is_listed_with_its_caller_and_its_tokens() -> None:
    engine = Gated()
    application = guarded(engine)
    client = Client(application, body=PROMPT_BODY, headers={"x-request-id": "mine"})
    engine.tokens.put_nowait("one")
    await client.until(1)

    (stream,) = (await seen(application))["streams"]
    assert (stream["flow"], stream["model"], stream["state"]) == ("chat", "gated", "running")
    assert (stream["id"], stream["path"]) == ("mine", "/v1/streams")
    assert (stream["completion_tokens"], stream["finish"]) == (1, [])
    assert stream["started"].endswith("Z")
    client.leave()
    await within(client.task)


async def test_other_streams_go_on_while_many_are_listed() -> None:
    application = serving(Gated(), max_streams=4 * PER_TURN)
    clients = [Client(application, body=PROMPT_BODY) for _ in range(4 * PER_TURN)]
    calls = application.running.calls
    while len(calls) < len(clients):
        await asyncio.sleep(0)
    first = next(iter(calls.values()))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    listed = [stream async for stream in application.instances.running(first.wire.caller)]
    counting.cancel()
    for client in clients:
        client.leave()
        await within(client.task)

    assert (len(listed), turns) == (len(clients), 4)


async def test_one_answer_is_found_by_its_id_while_it_is_made() -> None:
    engine = Gated()
    application = guarded(engine)
    client = Client(application, body=PROMPT_BODY, headers={"x-request-id": "mine"})
    engine.tokens.put_nowait("one")
    await client.until(1)

    found = await seen(application, client.frames_start_id())
    assert (found["id"], found["state"]) == ("mine", "running")
    assert [(flow["side"], flow["choice"], flow["kind"]) for flow in found["flows"]] == [
        ("prompt", None, "text"),
        ("completion", 0, "text"),
    ]
    client.leave()
    await within(client.task)


async def test_an_answer_that_has_ended_keeps_its_account_and_no_text() -> None:
    application = guarded(Scripted("a badword here"))
    client = Client(application, body={"prompt": "jo@example.org"}, headers={"x-request-id": "r1"})
    await client

    looked = await Client(application, "/flows/r1", method="GET")
    found = looked.json
    prompt, answer = found["flows"]
    assert (found["state"], found["finish"]) == ("completed", [{"index": 0, "reason": "stop"}])
    assert found["completion_tokens"] == 3
    assert prompt["nodes"]["filter"]["matches"] == 1
    assert answer["nodes"]["filter"]["received"] == 3
    assert answer["edges"][0]["entered"] == answer["edges"][0]["taken"] == 3
    for text in (b"jo@", b"badword", b"here"):
        assert text not in looked.body


async def test_a_filtered_prompt_names_its_side() -> None:
    words = {"words": ["secret"], "mode": "stream", "action": "block"}
    guard = PromptGuard(lambda: torvyn.Flow(Blocklist(words)))
    application = app({"chat": Service("chat", Scripted("a"), prompt_guard=guard)})
    await Client(application, body={"prompt": "secret"}, headers={"x-request-id": "r1"})

    found = await seen(application, "r1")
    assert found["finish"] == [{"index": 0, "reason": "content_filter", "side": "prompt"}]
    assert (found["prompt_tokens"], found["completion_tokens"]) == (0, 0)


async def test_a_failed_answer_gives_the_reason() -> None:
    application = serving(Scripted("a b", fail_at=1))
    await Client(application, body=PROMPT_BODY, headers={"x-request-id": "r1"})

    found = await seen(application, "r1")
    assert (found["state"], found["error"]) == ("failed", "engine.scripted-failure")
    assert found["finish"] == [{"index": 0, "reason": "error"}]


async def test_an_answer_that_was_left_is_cancelled() -> None:
    engine = Gated()
    application = serving(engine)
    client = Client(application, body=PROMPT_BODY, headers={"x-request-id": "r1"})
    await within(engine.has_begun.wait())
    client.leave()
    await within(client.task)

    assert (await seen(application, "r1"))["state"] == "cancelled"


async def test_streams_of_a_socket_are_listed_one_by_one() -> None:
    application = serving(Scripted("a b"))
    async with Socket(application) as socket:
        socket.say(START)
        await socket.until_got("end", "s")
        socket.say(START, stream_id="t")
        await socket.until_got("end", "t")

    ended = (await seen(application))["ended"]
    assert [one["path"] for one in ended] == ["/v1/ws", "/v1/ws"]
    assert len({one["id"] for one in ended}) == 2


async def test_a_running_answer_shows_the_connections_of_its_flow(
    auditing: Application, closed_port: int
) -> None:
    client = Client(auditing, body=PROMPT_BODY)
    connection: dict[str, Any] = {}
    while connection.get("state") != "waiting":
        streams = (await within(seen(auditing)))["streams"]
        connection = next((one for each in streams for one in each["connections"]), {})

    assert (connection["node"], connection["address"]) == ("audit", f"127.0.0.1:{closed_port}")
    assert connection["reason"] == "connection refused"
    client.leave()
    await within(client.task)


async def test_no_id_that_is_not_known_is_answered() -> None:
    client = await Client(serving(Scripted("a")), "/flows/none", method="GET")

    assert (client.status, client.json["error"]["code"]) == (404, "transport.instance-unknown")


async def test_only_the_latest_are_kept_and_the_latest_come_first() -> None:
    application = serving(Scripted("a"))
    for number in range(MAX_ENDED + 1):
        await Client(application, body=PROMPT_BODY, headers={"x-request-id": f"r{number}"})

    ended = (await seen(application))["ended"]
    assert len(ended) == MAX_LISTED
    assert ended[0]["id"] == f"r{MAX_ENDED}"
    assert (await Client(application, "/flows/r1", method="GET")).status == 200
    assert (await Client(application, "/flows/r0", method="GET")).status == 404


async def test_streams_of_another_tenant_are_unknown(keyed: Keyed) -> None:
    keyed.add("own", tenant="a")
    keyed.add("same", tenant="a")
    keyed.add("other", tenant="b")
    keyed.add("operator", scope="admin")
    keyed.serve(Scripted("a"))
    await keyed.ask("own", body=PROMPT_BODY)
    (ended,) = (await keyed.ask("operator", "/flows", method="GET")).json["ended"]

    for name in ("own", "same", "operator"):
        assert (await keyed.ask(name, f"/flows/{ended['id']}", method="GET")).status == 200
    other = await keyed.ask("other", f"/flows/{ended['id']}", method="GET")
    assert (other.status, other.json["error"]["code"]) == (404, "transport.instance-unknown")


async def test_a_caller_without_a_key_is_rejected(keyed: Keyed) -> None:
    application = keyed.serve(Scripted("a"))

    assert (await Client(application, "/flows/x", method="GET")).status == 401
