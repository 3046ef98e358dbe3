"""Which requests are accepted and which are rejected, with which status and in which shape."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving, within

from torvyn.engine import Scripted, Service
from torvyn.errors import Unavailable
from torvyn.serve import ServerSettings, app

MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT = {"messages": MESSAGES}


async def refused(path: str, body: Any, **more: Any) -> tuple[int, str]:
    client = await Client(serving(Scripted("a"), max_body_bytes=1000), path, body, **more)
    return client.status, client.json["error"]["code"]


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.promise("inference.bad-requests")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "transport.bad-json"),
        (b"[]", 400, "transport.bad-json"),
        (b"\xff", 400, "transport.bad-json"),
        (b'{"prompt": NaN}', 400, "transport.bad-json"),
        (b" " * 1001, 413, "transport.body-too-large"),
        (nested(65), 400, "transport.json-too-deep"),
        ({"prompt": "Hi", "tempreature": 1}, 400, "transport.request-invalid"),
        ({}, 400, "transport.request-invalid"),
        ({"prompt": "Hi", "messages": MESSAGES}, 400, "transport.request-invalid"),
        ({"prompt": 1}, 400, "transport.request-invalid"),
        ({"prompt": "Hi", "tools": [1]}, 400, "transport.request-invalid"),
        ({"prompt": "Hi", "stream": False}, 400, "transport.request-invalid"),
        ({"prompt": "Hi", "temperature": 9}, 400, "engine.request-invalid"),
        ({"prompt": "Hi", "flow": "chta"}, 404, "transport.flow-unknown"),
    ],
)
async def test_a_wrong_request_is_refused(body: Any, status: int, code: str) -> None:
    assert await refused("/v1/streams", body) == (status, code)


async def test_a_body_so_deep_that_a_parser_gives_up_is_refused() -> None:
    deep = b'{"prompt":' + b"[" * 500_000

    client = await Client(serving(Scripted("a")), body=deep)

    assert client.status == 400


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        ("/v2", "GET", 404, "transport.route-unknown"),
        ("/v1/streams", "GET", 405, "transport.method-refused"),
        ("/v1/streams/req-1", "DELETE", 404, "transport.stream-unknown"),
        ("/v1/models/other", "GET", 404, "model_not_found"),
    ],
)
async def test_routes_say_what_they_take(path: str, method: str, status: int, code: str) -> None:
    assert await refused(path, None, method=method) == (status, code)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": ""}, 421),
        ({"host": "192.168.0.1:8080"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"host": "localhost:8080", "origin": "http://localhost:8080"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "127.0.0.2"}, 200),
    ],
)
async def test_pages_of_others_get_no_answer(headers: dict[str, str], status: int) -> None:
    client = await Client(serving(Scripted("a")), body=PROMPT_BODY, headers=headers)

    assert client.status == status
    assert "access-control-allow-origin" not in client.headers


async def test_configured_names_are_answered_to() -> None:
    headers = {"host": "chat.example:443"}
    application = serving(Scripted("a"), hosts=("chat.example",))

    assert (await Client(application, body=PROMPT_BODY, headers=headers)).status == 200


async def test_openai_gets_errors_in_its_own_shape() -> None:
    asked = {**CHAT, "temperature": 9}
    client = await Client(serving(Scripted("a")), "/v1/chat/completions", asked)

    assert client.status == 400
    assert client.json["error"].keys() == {"message", "type", "param", "code"}
    assert client.json["error"]["type"] == "invalid_request_error"


async def test_openai_fields_that_mean_nothing_here_are_named_and_ignored() -> None:
    asked = {**CHAT, "frequency_penalty": 1, "x\r\ny": 2, "logit_bias": None}
    client = await Client(serving(Scripted("a")), "/v1/chat/completions", asked)

    assert client.status == 200
    assert client.headers["x-torvyn-ignored"] == "frequency_penalty, x__y"


async def test_an_engine_that_is_away_is_a_status_when_nothing_was_sent() -> None:
    engine = Scripted("a", fail_at=0, error=Unavailable("gone"))
    client = await Client(serving(engine), "/v1/chat/completions", CHAT)

    assert client.status == 503
    assert client.json["error"]["type"] == "server_error"


async def test_a_bug_of_an_engine_is_not_shown_to_clients() -> None:
    application = serving(Scripted("a"))
    application.services["chat"] = None  # type: ignore[assignment]
    client = await Client(application, body=PROMPT_BODY)

    assert client.status == 500
    assert client.json["error"]["message"] == "the server failed; see its log"


@pytest.mark.parametrize("given", ["trace-1", "a b", "x" * 200, "é", "tvk_" + "A" * 43])
async def test_every_answer_has_an_id(given: str) -> None:
    headers = {"x-request-id": given}
    client = await Client(serving(Scripted("a")), body=PROMPT_BODY, headers=headers)

    kept = client.headers["x-request-id"]
    assert kept == given if given == "trace-1" else kept.startswith("req-")


async def test_more_streams_than_places_wait_shortly_and_are_then_refused() -> None:
    application = serving(Gated(), max_streams=1, admission_wait_s=0.01)
    first = Client(application, body=PROMPT_BODY)
    await first.until(1)
    second = await Client(application, body=PROMPT_BODY)
    first.leave()
    await first

    assert (second.status, second.headers["retry-after"]) == (429, "1")
    assert second.json["error"]["retryable"] is True


async def test_a_request_that_waits_gets_the_place_that_becomes_free() -> None:
    engine = Gated()
    application = serving(engine, max_streams=1, admission_wait_s=5)
    first = Client(application, body=PROMPT_BODY)
    await first.until(1)
    second = Client(application, body=PROMPT_BODY)
    await asyncio.sleep(0)
    engine.tokens.put_nowait(None)
    engine.tokens.put_nowait(None)
    await within(asyncio.gather(first.task, second.task))

    assert (first.status, second.status) == (200, 200)
    assert second.frames()[-1].timing["queue_s"] >= 0


async def test_several_flows_are_addressed_by_name() -> None:
    services = {name: Service(name, Scripted(name)) for name in ("one", "two")}
    application = app(services, ServerSettings())
    named = await Client(application, "/v1/chat/completions", {**CHAT, "model": "two"})
    unnamed = await Client(application, "/v1/chat/completions", CHAT)
    models = await Client(application, "/v1/models", method="GET")

    assert named.json["choices"][0]["message"]["content"] == "two"
    assert unnamed.status == 400
    assert [model["id"] for model in models.json["data"]] == ["one", "two"]


@pytest.mark.promise("inference.latency-figures")
async def test_what_was_done_is_counted() -> None:
    application = serving(Scripted("a b"))
    await Client(application, body=PROMPT_BODY)
    flows = (await Client(application, "/flows", method="GET")).json
    metrics = (await Client(application, "/metrics", method="GET")).body.decode()

    assert flows["flows"][0]["completion_tokens"] == 2
    assert 'torvyn_choices_total{flow="chat",finish="stop"} 1' in metrics
    route = 'torvyn_requests_total{method="POST",route="/v1/streams",status="200"} 1'
    assert route in metrics
    named = 'gen_ai_server_time_to_first_token_seconds_count{gen_ai_request_model="chat"} 1'
    assert named in metrics
    for name in ("inter_token_seconds", "queue_seconds", "output_tokens"):
        assert f'torvyn_{name}_count{{flow="chat"}} 1' in metrics
    assert 'torvyn_output_tokens_bucket{flow="chat",le="1"} 0' in metrics
    assert 'torvyn_output_tokens_bucket{flow="chat",le="4"} 1' in metrics


async def test_the_document_lists_every_route() -> None:
    application = serving(Scripted("a"))
    client = await Client(application, "/openapi.json", method="GET")

    paths = client.json["paths"]
    offered = {path: {method.upper() for method in held} for path, held in paths.items()}
    assert offered == {path: set(methods) for path, methods in application.router.paths.items()}


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": headers}
    await serving(Scripted("a"), body_timeout_s=0.01)(scope, receive, send)

    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["error"]["code"] == "transport.body-slow"
