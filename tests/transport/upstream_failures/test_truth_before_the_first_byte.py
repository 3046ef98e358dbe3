"""The law of a gateway: until an upstream's answer has begun, clients get a status, whatever they
speak, and the clients of OpenAI retry what may succeed and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import missing
import node_clients
import openai
import pytest
from failing_upstream import (
    BROKEN,
    CODE,
    FAIL,
    IN_THE_PROCESS,
    KEPT,
    LATE,
    PASSED,
    TOO_LONG,
    UNREACHABLE,
    Failure,
    expected,
    flow_of,
    gateway,
)
from grpc_client import calling, pb
from grpc_session_client import Talk
from live_server import PATIENCE_S, Served, served
from raw_websocket import accepted, said
from scale import sample

from fake_upstream import Upstream, status
from fake_upstream import running as upstream_running
from torvyn.engine import open as open_engine

STATUSES = sample(
    [201, 204, 302, 400, 401, 403, 405, 418, 500, 501, 502, 507, *KEPT],
    full=[code for code in range(201, 600) if code != 304],
)
CASES = [*map(str, STATUSES), *BROKEN, UNREACHABLE, *IN_THE_PROCESS]
LIMIT = "x-ratelimit-remaining-requests"
RETRYING = openai.OpenAI(base_url="http://localhost", api_key="-")


class Running(NamedTuple):
    server: Served
    upstream: Upstream
    client: httpx.Client
    stub: Any


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with (
        gateway() as (server, upstream),
        calling(server) as stub,
        httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client,
    ):
        yield Running(server, upstream, client, stub)


def check_response(response: httpx.Response, failure: Failure) -> None:
    error = response.json()["error"]
    assert response.status_code == failure.status, error
    assert RETRYING._should_retry(response) == failure.is_retryable  # type: ignore[arg-type]
    passed = {name: response.headers.get(name) for name in PASSED}
    told = error["code"] if "type" in error else error.get("upstream_code")
    if failure.told:
        assert (passed, told) == (PASSED, failure.told)
    else:
        assert (set(passed.values()), told != CODE) == ({None}, True)
    assert "x-internal" not in response.headers


def body_of(path: str, case: str, **more: Any) -> dict[str, Any]:
    if path == CHAT:
        message = {"role": "user", "content": case}
        return {"messages": [message], "model": flow_of(case), **more}
    return {"prompt": case, "flow" if path == STREAMS else "model": flow_of(case), **more}


def over_http(path: str, headers: dict[str, str], **more: Any) -> Callable[..., None]:
    def ask(running: Running, case: str, failure: Failure) -> None:
        body = body_of(path, case, **more)
        check_response(running.client.post(path, json=body, headers=headers), failure)

    return ask


def over_websocket(running: Running, case: str, failure: Failure) -> None:
    start = said(type="start", stream_id="s", prompt=case, flow=flow_of(case))
    with accepted(running.server, start) as socket:
        message = socket.hear()
    assert (message["type"], message["stream_id"]) == ("refused", "s")
    assert (message["status"], message["retryable"]) == (failure.status, failure.is_retryable)
    told = (message.get("upstream_code"), message.get("retry_after_s"))
    assert told == ((failure.told, 7 if failure.told else None))


def over_grpc(running: Running, case: str, failure: Failure) -> None:
    request = pb.GenerateRequest(prompt=case, flow=flow_of(case))
    with pytest.raises(grpc.RpcError) as caught:
        list(running.stub.Generate(request, timeout=PATIENCE_S))
    trailers = dict(caught.value.trailing_metadata())
    assert caught.value.code() == failure.grpc
    assert trailers.get(LIMIT) == (PASSED[LIMIT] if failure.told else None)
    pause = PASSED["retry-after"] if failure.told else "1"
    assert trailers.get("retry-after") == (pause if failure.is_retryable else None)


def over_grpc_session(running: Running, case: str, failure: Failure) -> None:
    talk = Talk(running.stub)
    talk.start("s", prompt=case, flow=flow_of(case))
    message = talk.next()
    assert message.stream_id == "s"
    refused = message.refused
    assert (refused.status, refused.retryable) == (failure.status, failure.is_retryable)
    told = (refused.upstream_code, refused.retry_after_s)
    assert told == ((failure.told or "", 7 if failure.told else 0))
    talk.hang_up()


CHAT, COMPLETION, STREAMS = "/v1/chat/completions", "/v1/completions", "/v1/streams"
REQUESTS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "events": (STREAMS, {}, {}),
    "lines": (STREAMS, {"accept": "application/x-ndjson"}, {}),
    "stateful": (STREAMS, {}, {"stateful": True}),
    "chat": (CHAT, {}, {"stream": True}),
    "whole chat": (CHAT, {}, {}),
    "completion": (COMPLETION, {}, {"stream": True}),
    "whole completion": (COMPLETION, {}, {}),
}
TRANSPORTS = {
    **{name: over_http(path, headers, **more) for name, (path, headers, more) in REQUESTS.items()},
    "websocket": over_websocket,
    "grpc": over_grpc,
    "grpc session": over_grpc_session,
}


@pytest.mark.promise("inference.early-failures")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_fails_before_the_first_byte_has_a_status(running: Running, transport: str) -> None:
    for case in CASES:
        try:
            TRANSPORTS[transport](running, case, expected(case))
        except AssertionError as error:
            raise AssertionError(f"an upstream that answers {case!r}: {error}") from error


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("case", ["429", "503", "401", "400", "no JSON", "a reset after the head"])
def test_openais_client_retries_what_may_succeed(
    running: Running, case: str, is_streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = len(running.upstream.exchanges)
    base_url = f"{running.server.url}/v1"
    with openai.OpenAI(base_url=base_url, api_key="-", max_retries=2) as client:
        monkeypatch.setattr(client, "_calculate_retry_timeout", lambda *about: 0.0)
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": case}], stream=is_streamed
            )
    failure = expected(case)
    assert caught.value.status_code == failure.status
    assert len(running.upstream.exchanges) - asked == (3 if failure.is_retryable else 1)


@missing.needs("clients from npm", is_there=node_clients.are_there())
@pytest.mark.parametrize("is_streamed", [True, False])
def test_openais_client_in_node_retries_what_may_succeed(
    running: Running, is_streamed: bool, tmp_path: Path
) -> None:
    asked = [{"model": flow_of(case), "prompt": case, "stream": is_streamed} for case in CASES]
    seen = node_clients.ask(tmp_path, "retries", url=running.server.url, cases=asked)
    told = {
        case: (each["requests"], each["status"]) for case, each in zip(CASES, seen, strict=True)
    }
    failures = {case: expected(case) for case in CASES}
    assert told == {
        case: (3 if failure.is_retryable else 1, failure.status)
        for case, failure in failures.items()
    }


@pytest.mark.parametrize("path", [STREAMS, CHAT])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_context_that_is_too_long_is_told_as_openai_does(
    running: Running, path: str, is_whole: bool
) -> None:
    more = {"stream": not is_whole} if path == CHAT else {}
    response = running.client.post(path, json=body_of(path, TOO_LONG, **more))
    code = TOO_LONG if path == CHAT else "engine.context-full"
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


@pytest.fixture
def late() -> Iterator[Served]:
    """A gateway that does not wait long; the test says when the upstream fails."""
    FAIL.clear()
    with gateway(first_byte_wait_s=0.01) as (server, _):
        yield server
        FAIL.set()


@pytest.mark.parametrize("transport", ["events", "lines", "stateful", "chat", "completion"])
def test_what_fails_later_is_an_event_with_the_same_code(late: Served, transport: str) -> None:
    path, headers, more = REQUESTS[transport]
    body = body_of(path, LATE, **more)
    with httpx.stream("POST", late.url + path, headers=headers, json=body) as response:
        assert response.status_code == 200
        FAIL.set()
        code = "engine.upstream-busy" if path == STREAMS else CODE
        assert f'"code":"{code}"' in response.read().decode()


def test_what_fails_later_is_an_event_on_a_websocket(late: Served) -> None:
    with accepted(late, said(type="start", stream_id="s", prompt=LATE, flow="chat")) as socket:
        assert socket.hear()["type"] == "start"
        FAIL.set()
        assert [socket.hear()["type"] for _ in range(2)] == ["error", "end"]


def test_what_fails_later_is_an_event_over_grpc(late: Served) -> None:
    with calling(late) as stub:
        call = stub.Generate(pb.GenerateRequest(prompt=LATE, flow="chat"), timeout=PATIENCE_S)
        assert next(call).WhichOneof("frame") == "start"
        FAIL.set()
        kinds = [message.WhichOneof("frame") for message in call]
    assert [kind for kind in kinds if kind != "heartbeat"] == ["error", "end"]


def test_an_upstream_that_advises_against_a_retry_is_asked_once() -> None:
    reply = status(429, "{}", "x-should-retry: false")
    with (
        upstream_running(reply) as upstream,
        served(open_engine("openai", base_url=upstream.url, model="m", api_key="-")) as server,
    ):
        response = httpx.post(f"{server.url}/v1/streams", json={"prompt": "Hi"})
    assert (response.status_code, len(upstream.exchanges)) == (429, 1)
    assert response.headers["x-should-retry"] == "false"
    assert response.json()["error"]["retryable"] is False
