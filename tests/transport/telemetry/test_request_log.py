"""The request log: one line per request and stream, with caller, flow and tokens."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgi_client import PROMPT_BODY, Client, serving
from grpc_client import answering, generate, pb, rejection_of
from grpc_session_client import Talk
from live_server import ask, served, wait_for
from websocket_client import START, Socket

import torvyn
from fake_upstream import HELLO, Exchange, running, says, status
from torvyn.components import Blocklist
from torvyn.engine import Scripted, Service
from torvyn.engine.openai.engine import OpenAI
from torvyn.engine.prompt.prompt_flow import PromptGuard
from torvyn.protocol import Decoder, StartFrame
from torvyn.serve import app

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


REFUSED = [
    ("/v1/streams", "POST", {}, 401, "/v1/streams", "transport.key-missing"),
    ("/v1/streams/some-id", "GET", {}, 401, "/v1/streams/{id}", "transport.key-missing"),
    ("/v2", "GET", {}, 401, "unknown", "transport.key-missing"),
    ("/flows", "GET", {"host": "evil.example"}, 421, "/flows", "transport.host-refused"),
    ("/healthz", "PUT", {}, 405, "/healthz", "transport.method-refused"),
]


@pytest.mark.parametrize(("path", "method", "headers", "status", "route", "code"), REFUSED)
async def test_a_refused_request_is_logged_with_its_route_and_the_reason(
    log: Log,
    keyed: Any,
    path: str,
    method: str,
    headers: dict[str, str],
    status: int,
    route: str,
    code: str,
) -> None:
    application = keyed.serve(Scripted("a"))
    await Client(application, path, PROMPT_BODY, method, {"x-request-id": "r1", **headers})

    (record,) = of_event(log, "request")
    assert (record.method, record.path, record.status, record.error) == (
        method,
        route,
        status,
        code,
    )
    assert record.getMessage().startswith(f"{method} {route} {status} ")
    assert record.getMessage().endswith(f"error={code} peer=- r1")
    assert application.metrics.requests[method, route, status] == 1


async def test_a_refused_socket_is_logged_with_the_reason(log: Log, keyed: Any) -> None:
    async with Socket(keyed.serve(Scripted("a"))):
        pass

    (record,) = of_event(log, "request")
    assert (record.path, record.status, record.error) == (
        "/v1/ws",
        401,
        "transport.key-missing",
    )


REFUSED_MESSAGES: list[tuple[dict[str, Any], int, str]] = [
    ({**START, "flow": "no"}, 404, "transport.flow-unknown"),
    ({**START, "promt": "x"}, 400, "transport.request-invalid"),
    ({"type": "stop", "stream_id": "s"}, 404, "transport.stream-unknown"),
    ({"type": "resume", "stream_id": "s", "id": "x"}, 404, "transport.stream-unknown"),
]


@pytest.mark.parametrize(("message", "status", "code"), REFUSED_MESSAGES)
async def test_what_a_socket_refuses_is_logged_and_counted_as_a_request_is(
    log: Log, message: dict[str, Any], status: int, code: str
) -> None:
    application = serving(Scripted("a"))
    async with Socket(application) as socket:
        socket.say(message)
        await socket.until_got("refused")

    refused, _ = of_event(log, "request")
    assert (refused.path, refused.status, refused.error) == ("/v1/ws", status, code)
    assert refused.getMessage().startswith(f"STREAM /v1/ws {status} stream='s' error={code} peer=")
    assert application.metrics.requests["STREAM", "/v1/ws", status] == 1


async def test_an_answer_that_fails_on_a_socket_is_one_line(log: Log) -> None:
    engine = Scripted("a", fail_at=0, error=torvyn.Unavailable("away"))
    async with Socket(serving(engine)) as socket:
        socket.say(START)
        await socket.until_got("refused")

    (stream,) = of_event(log, "stream")
    assert stream.error == "component.unavailable"
    assert len(of_event(log, "request")) == 1


def test_what_a_session_of_grpc_refuses_is_logged(log: Log) -> None:
    with answering(Scripted("a")) as (_, stub):
        talk = Talk(stub)
        talk.start("s", prompt="x", flow="no")
        assert talk.next().refused.status == 404
        (refused,) = wait_for(lambda: of_event(log, "request"))
        talk.hang_up()

    assert (refused.path, refused.stream_id) == ("/torvyn.v1.Inference/Session", "s")
    assert refused.error == "transport.flow-unknown"


def test_a_refused_call_of_grpc_is_logged_with_the_reason(log: Log) -> None:
    with answering(Scripted("a")) as (_, stub):
        rejection_of(stub.Generate(pb.GenerateRequest(prompt="x", flow="no")))
        (record,) = wait_for(lambda: of_event(log, "request"))

    assert (record.path, record.error) == (
        "/torvyn.v1.Inference/Generate",
        "transport.flow-unknown",
    )


async def breaks_off(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(HELLO[0], HELLO[1])
    exchange.reset()


async def is_gone(exchange: Exchange) -> None:
    exchange.reset()


FAILURES = {"cut": breaks_off, "down": is_gone, "busy": status(500, "no")}


@pytest.mark.parametrize("path", ["/v1/streams", "/v1/chat/completions"])
@pytest.mark.parametrize("way", FAILURES)
@pytest.mark.parametrize("client", ["native", "aiohttp"])
def test_an_upstream_that_fails_is_one_line_that_names_it(
    caplog: Log, path: str, way: str, client: Any
) -> None:
    with (
        running(FAILURES[way]) as upstream,
        OpenAI(base_url=upstream.url, model="m", retries=0, client=client) as engine,
        served(engine) as server,
    ):
        ask(server.url + path, CHAT if "chat" in path else PROMPT_BODY)

    (record,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert urlsplit(upstream.url).netloc in record.getMessage()
    assert record.exc_info is None
    assert "\n" not in record.getMessage()


def test_the_upstream_gets_the_id_of_the_answer() -> None:
    with (
        running(says(*HELLO)) as upstream,
        OpenAI(base_url=upstream.url, model="m") as engine,
        served(engine) as server,
    ):
        start, *_ = Decoder("torvyn", "sse").put(
            ask(server.url + "/v1/streams", PROMPT_BODY)[1].encode()
        )
        engine.complete("x", request_id="\u00e9\r\nx: y")

    first, second = upstream.exchanges
    assert isinstance(start, StartFrame)
    assert first.header("x-request-id") == start.id
    assert (second.header("x-request-id"), second.header("x")) == (None, None)


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
