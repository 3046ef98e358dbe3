"""The request log: one line per request and stream, with caller, flow and tokens."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, serving
from grpc_client import answering, generate
from live_server import served, wait_for
from websocket_client import START, Socket

import torvyn
from torvyn.components import Blocklist
from torvyn.engine import Scripted, Service
from torvyn.engine.prompt.prompt_flow import PromptGuard
from torvyn.transport import app

CHAT = {"messages": [{"role": "user", "content": "one two"}]}
WORDS = {"words": ["secret"], "mode": "stream", "action": "block"}


Log = pytest.LogCaptureFixture


@pytest.fixture
def log(caplog: Log) -> Log:
    caplog.set_level(logging.INFO, "torvyn.transport")
    return caplog


def of_event(log: Log, event: str) -> list[Any]:
    return [record for record in log.records if getattr(record, "event", None) == event]


async def test_a_request_is_logged_with_path_model_tokens_and_peer(log: Log) -> None:
    application = serving(Scripted("a b c"))
    await Client(application, "/v1/chat/completions", CHAT, headers={"x-request-id": "r1"})

    (record,) = of_event(log, "request")
    assert (record.method, record.path, record.status) == ("POST", "/v1/chat/completions", 200)
    assert (record.flow, record.model) == ("chat", "scripted")
    assert (record.prompt_tokens, record.completion_tokens) == (2, 3)
    assert record.request_id == "r1"
    assert record.finish == [{"index": 0, "reason": "stop"}]
    assert record.duration_ms > 0
    line = record.getMessage()
    assert line.startswith("POST /v1/chat/completions 200 ")
    assert line.endswith("flow=chat model=scripted tokens=2+3 finish=stop peer=- r1")


async def test_a_request_that_no_flow_answers_has_no_tokens(log: Log) -> None:
    await Client(serving(Scripted("a")), "/healthz", method="GET", headers={"x-request-id": "r1"})

    (record,) = of_event(log, "request")
    assert not hasattr(record, "completion_tokens")
    assert record.getMessage().startswith("GET /healthz 200 ")


async def test_the_paths_in_the_log_are_those_of_routes(log: Log) -> None:
    application = serving(Scripted("a"))
    client = await Client(application, body=PROMPT_BODY)
    id = client.frames()[0].id
    await Client(application, f"/v1/streams/{id}", method="DELETE")

    answered, stopped = of_event(log, "request")
    assert (answered.path, stopped.path) == ("/v1/streams", "/v1/streams/{id}")
    assert answered.request_id == id != stopped.request_id


async def test_each_stream_of_a_socket_is_logged(log: Log) -> None:
    async with Socket(serving(Scripted("a b"))) as socket:
        socket.say(START)
        await socket.until_got("end")

    (stream,) = of_event(log, "stream")
    assert (stream.path, stream.completion_tokens) == ("/v1/ws", 2)
    (request,) = of_event(log, "request")
    assert (request.method, request.status) == ("WEBSOCKET", 101)


async def test_a_stateful_answer_is_logged_when_it_has_ended(log: Log) -> None:
    await Client(serving(Scripted("a b")), body={**PROMPT_BODY, "stateful": True})

    (stream,) = of_event(log, "stream")
    assert (stream.path, stream.completion_tokens) == ("/v1/streams", 2)


def test_a_call_of_grpc_is_logged_with_its_peer(log: Log) -> None:
    with answering(Scripted("a b")) as (_, stub):
        generate(stub)
        (record,) = wait_for(lambda: of_event(log, "request"))

    assert (record.path, record.peer) == ("/torvyn.v1.Inference/Generate", "127.0.0.1")
    assert (record.model, record.completion_tokens) == ("scripted", 2)


def test_the_peer_of_a_real_connection_is_logged(log: Log) -> None:
    with served(Scripted("a")) as server:
        with server.ask(b'{"prompt": "Hi"}') as sock:
            while b'"end"' not in sock.recv(65536):
                pass
        (record,) = wait_for(lambda: of_event(log, "request"))

    assert record.peer == "127.0.0.1"


async def test_the_log_names_the_side_of_a_content_filter(log: Log) -> None:
    guard = PromptGuard(lambda: torvyn.Flow(Blocklist(WORDS)))
    application = app({"chat": Service("chat", Scripted("a"), prompt_guard=guard)})
    await Client(application, body={"prompt": "the secret"})

    (record,) = of_event(log, "request")
    assert record.finish[0]["side"] == "prompt"
    assert "finish=content_filter(prompt)" in record.getMessage()
    assert "secret" not in record.getMessage()


@pytest.mark.parametrize("side", ["prompt", "completion"])
@pytest.mark.parametrize("is_native", [True, False])
async def test_what_a_guard_has_found_is_logged_with_the_id_of_the_request(
    log: Log, side: str, is_native: bool
) -> None:
    log.set_level(logging.INFO, "torvyn.guard")
    kind = Blocklist if is_native else type("OwnBlocklist", (Blocklist,), {})

    def make() -> torvyn.Flow:
        return torvyn.Flow(kind({**WORDS, "action": "replace"}))

    flows = {"prompt_guard": PromptGuard(make)} if side == "prompt" else {"make_flow": make}
    service = Service("chat", Scripted("the secret"), **flows)  # type: ignore[arg-type]
    body = {"prompt": "a secret"}
    client = await Client(app({"chat": service}), body=body, headers={"x-request-id": "r1"})

    (found,) = of_event(log, "guard.match")
    assert found.request_id == client.frames()[0].id == "r1"
