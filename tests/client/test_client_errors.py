"""Rejections, and servers that are not Torvyn's: the right class, the server's message."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from faulty_server import FRAMES, TEXT, FaultyServer, failing

from torvyn.client import (
    AnswerFailedError,
    AsyncClient,
    Client,
    InternalServerError,
    InvalidRequestError,
    PermissionDeniedError,
    RequestTimeoutError,
    ServerBusyError,
    ServerError,
)
from torvyn.errors import Fatal, Internal, InvalidInput, TorvynError, Unavailable
from torvyn.protocol import ErrorFrame


def error_body(code: str = "transport.x", **more: Any) -> str:
    return json.dumps({"error": {"code": code, "message": "no", "retryable": False, **more}})


async def rejection(status: int, body: str = "", **headers: str) -> ServerError:
    turn = {"status": status, "body": body, "headers": headers}
    async with (
        FaultyServer(script=[turn]).serving() as server,
        AsyncClient(server.url, key="s3cret", retries=0) as client,
    ):
        with pytest.raises(ServerError) as caught:
            await client.stream("Hi").begin()
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind", "whose"),
    [
        (400, InvalidRequestError, InvalidInput),
        (401, PermissionDeniedError, Fatal),
        (404, InvalidRequestError, InvalidInput),
        (408, RequestTimeoutError, TorvynError),
        (413, InvalidRequestError, InvalidInput),
        (429, ServerBusyError, Unavailable),
        (500, InternalServerError, Internal),
        (502, ServerBusyError, Unavailable),
        (503, ServerBusyError, Unavailable),
        (504, RequestTimeoutError, TorvynError),
    ],
)
async def test_a_status_is_an_exception_with_the_servers_words(
    status: int, kind: type[ServerError], whose: type[TorvynError]
) -> None:
    headers = {"Retry-After": "7", "X-Request-ID": "req-9"}
    body = error_body("transport.busy", hint="later", retryable=status in (429, 502, 503))
    error = await rejection(status, body, **headers)

    assert type(error) is kind
    assert isinstance(error, whose)
    assert (error.code, error.message, error.hint) == ("transport.busy", "no", "later")
    assert (error.status, error.retry_after_s, error.request_id) == (status, 7.0, "req-9")


@pytest.mark.parametrize("body", ["<html>gate\x1b[31mway s3cret</html>", "", "[1]", "{}"])
async def test_a_proxys_message_is_shown_without_control_characters_and_keys(body: str) -> None:
    error = await rejection(502, body)

    assert error.code == "client.refused"
    assert "answered 502" in error.message
    assert "s3cret" not in error.message
    assert "\x1b" not in error.message


async def test_a_redirect_is_not_followed() -> None:
    error = await rejection(302, Location="http://127.0.0.1:1/")

    assert (type(error), error.status) == (InvalidRequestError, 302)


async def test_a_request_to_a_busy_server_is_retried() -> None:
    busy = {"status": 429, "headers": {"Retry-After": "0"}}
    async with (
        FaultyServer(script=[busy, {"status": 503}, {}]).serving() as server,
        AsyncClient(server.url) as client,
    ):
        assert (await client.stream("Hi").complete()).text == TEXT

    assert server.request_lines == ["POST /v1/streams"] * 3


async def test_a_server_that_wants_more_time_than_there_is_is_not_waited_for() -> None:
    busy = {"status": 429, "headers": {"Retry-After": "3600"}}
    began_s = time.monotonic()
    async with FaultyServer(script=[busy]).serving() as server, AsyncClient(server.url) as client:
        with pytest.raises(ServerBusyError) as caught:
            await client.stream("Hi").begin()

    assert caught.value.retry_after_s == 3600
    assert (len(server.requests), time.monotonic() - began_s < 5) == (1, True)


@pytest.mark.parametrize("status", [400, 401, 500, 502])
async def test_other_rejections_are_not_retried(status: int) -> None:
    async with (
        FaultyServer(script=[{"status": status}]).serving() as server,
        AsyncClient(server.url) as client,
    ):
        with pytest.raises(ServerError):
            await client.stream("Hi").begin()

    assert len(server.requests) == 1


# In the middle of an answer


@pytest.mark.promise("inference.error-frames")
@pytest.mark.parametrize(
    ("code", "retryable", "kind"),
    [
        ("engine.upstream-down", True, AnswerFailedError),
        ("transport.shutting-down", True, ServerBusyError),
        ("transport.failed", False, InternalServerError),
        ("reactor.deadline-exceeded", False, RequestTimeoutError),
        ("engine.context-full", False, InvalidRequestError),
    ],
)
async def test_an_error_frame_is_yielded_as_a_frame_and_raised_by_text(
    code: str, retryable: bool, kind: type[ServerError]
) -> None:
    frames = failing(code, retryable=retryable)
    async with FaultyServer(frames).serving() as server, AsyncClient(server.url) as client:
        seen = [frame async for frame in client.stream("Hi")]
        stream, got = client.stream("Hi"), []
        with pytest.raises(kind) as caught:
            async for text in stream.text():
                got.append(text)

    assert seen[1:] == list(frames)
    assert any(isinstance(frame, ErrorFrame) for frame in seen)
    assert (caught.value.code, caught.value.status) == (code, None)
    assert (len(got), stream.finish_reasons, stream.usage.completion_tokens) == (2, ("error",), 2)


async def test_complete_raises_the_error_of_the_answer() -> None:
    async with (
        FaultyServer(failing("transport.failed")).serving() as server,
        AsyncClient(server.url) as client,
    ):
        with pytest.raises(InternalServerError, match="it broke"):
            await client.stream("Hi").complete()


# Servers that are not Torvyn's


async def test_a_response_that_is_not_an_event_stream_is_an_error() -> None:
    turn = {"status": 200, "body": "<html>Welcome</html>"}
    async with FaultyServer(script=[turn]).serving() as server, AsyncClient(server.url) as client:
        with pytest.raises(Internal, match="`text/plain` instead of `text/event-stream`") as caught:
            await client.stream("Hi").begin()
        with pytest.raises(Internal, match="not valid JSON"):
            await client.models()

    assert caught.value.code == "client.garbage"


async def test_an_event_that_is_not_a_frame_is_an_error() -> None:
    turn = {"then": b"data: {]\n\n"}
    async with FaultyServer(FRAMES, [turn]).serving() as server, AsyncClient(server.url) as client:
        with pytest.raises(Internal, match="not a valid frame") as caught:
            await client.stream("Hi", stateful=True).complete()

    assert caught.value.code == "client.garbage"


def test_an_unreachable_server_is_reported_at_once() -> None:
    with Client("http://127.0.0.1:1") as client:
        for ask in (client.health, client.stream("Hi").begin):
            with pytest.raises(Unavailable) as caught:
                ask()
            assert caught.value.code == "client.unreachable"


async def test_a_rejected_stream_stays_rejected() -> None:
    async with (
        FaultyServer(script=[{"status": 400}, {}]).serving() as server,
        AsyncClient(server.url) as client,
    ):
        stream = client.stream("Hi")
        for _ in range(2):
            with pytest.raises(InvalidRequestError):
                await stream.begin()

    assert len(server.requests) == 1
