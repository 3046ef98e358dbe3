"""The law of a gateway: until an upstream's answer has begun, clients get a status, whatever they
speak, and the clients of OpenAI retry what may succeed and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import httpx
import openai
import pytest
from failing_upstream import (
    BROKEN,
    CODE,
    KEPT,
    PASSED,
    UNREACHABLE,
    Failure,
    expected,
    flow_of,
    gateway,
)
from grpc_client import calling, pb
from grpc_session_client import Talk
from live_server import PATIENCE_S, Served
from raw_websocket import accepted, said
from scale import sample

from fake_upstream import Upstream

STATUSES = sample(
    [201, 204, 302, 400, 401, 403, 405, 418, 500, 501, 502, *KEPT],
    full=[code for code in range(201, 600) if code != 304],
)
CASES = [*map(str, STATUSES), *BROKEN, UNREACHABLE]
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
    if failure.is_told:
        assert (passed, told) == (PASSED, CODE)
    else:
        assert (set(passed.values()), told != CODE) == ({None}, True)
    assert "x-internal" not in response.headers


def over_http(path: str, headers: dict[str, str], **body: Any) -> Callable[..., None]:
    def ask(running: Running, case: str, failure: Failure) -> None:
        if path == "/v1/chat/completions":
            about = {"messages": [{"role": "user", "content": case}], "model": flow_of(case)}
        else:
            about = {"prompt": case, "flow": flow_of(case), "model": flow_of(case)}
            about.pop("model" if path == "/v1/streams" else "flow")
        response = running.client.post(path, json={**about, **body}, headers=headers)
        check_response(response, failure)

    return ask


def over_websocket(running: Running, case: str, failure: Failure) -> None:
    start = said(type="start", stream_id="s", prompt=case, flow=flow_of(case))
    with accepted(running.server, start) as socket:
        message = socket.hear()
    assert (message["type"], message["stream_id"]) == ("refused", "s")
    assert (message["status"], message["retryable"]) == (failure.status, failure.is_retryable)
    told = (message.get("upstream_code"), message.get("retry_after_s"))
    assert told == ((CODE, 7) if failure.is_told else (None, None))


def over_grpc(running: Running, case: str, failure: Failure) -> None:
    request = pb.GenerateRequest(prompt=case, flow=flow_of(case))
    with pytest.raises(grpc.RpcError) as caught:
        list(running.stub.Generate(request, timeout=PATIENCE_S))
    trailers = dict(caught.value.trailing_metadata())
    assert caught.value.code() == failure.grpc
    limit = "x-ratelimit-remaining-requests"
    assert trailers.get(limit) == (PASSED[limit] if failure.is_told else None)
    pause = PASSED["retry-after"] if failure.is_told else "1"
    assert trailers.get("retry-after") == (pause if failure.is_retryable else None)


def over_grpc_session(running: Running, case: str, failure: Failure) -> None:
    talk = Talk(running.stub)
    talk.start("s", prompt=case, flow=flow_of(case))
    message = talk.next()
    assert message.stream_id == "s"
    assert message.refused.retryable == failure.is_retryable
    talk.hang_up()


STREAMED = {"stream": True}
TRANSPORTS = {
    "events": over_http("/v1/streams", {}),
    "lines": over_http("/v1/streams", {"accept": "application/x-ndjson"}),
    "stateful": over_http("/v1/streams", {}, stateful=True),
    "chat": over_http("/v1/chat/completions", {}, **STREAMED),
    "whole chat": over_http("/v1/chat/completions", {}),
    "completion": over_http("/v1/completions", {}, **STREAMED),
    "whole completion": over_http("/v1/completions", {}),
    "websocket": over_websocket,
    "grpc": over_grpc,
    "grpc session": over_grpc_session,
}


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
