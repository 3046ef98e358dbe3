"""An upstream that fails in every way before the first byte of its answer, and what clients of a
gateway have to hear of it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from live_server import PATIENCE_S, Served, served

import torvyn
from fake_upstream import DONE, HEAD, Exchange, Upstream, delta, event, running, status
from torvyn.engine import Scripted, Service
from torvyn.engine import open as open_engine

CODE = "code_of_the_upstream"
TOO_LONG = "context_length_exceeded"
HIDDEN = "no such model, which only the operator has chosen"
LIMITS = ("Retry-After: 7", "X-RateLimit-Remaining-Requests: 0", "X-Internal: secret")
PASSED = {"retry-after": "7", "x-ratelimit-remaining-requests": "0"}


class Failure(NamedTuple):
    """What a client has to hear."""

    status: int
    is_retryable: bool
    grpc: grpc.StatusCode
    told: str | None = None
    """The code of the upstream, which the client hears together with its limits."""


CODES = grpc.StatusCode
OPERATOR = Failure(502, False, CODES.INTERNAL)
"""Only the operator of the gateway can do something."""
TEMPORARY = Failure(502, True, CODES.UNAVAILABLE)
REFUSED = Failure(400, False, CODES.INVALID_ARGUMENT)
KEPT = {
    404: Failure(404, False, CODES.NOT_FOUND, CODE),
    408: Failure(408, True, CODES.DEADLINE_EXCEEDED, CODE),
    409: Failure(409, True, CODES.ABORTED, CODE),
    413: Failure(413, False, CODES.RESOURCE_EXHAUSTED, CODE),
    422: Failure(422, False, CODES.INVALID_ARGUMENT, CODE),
    429: Failure(429, True, CODES.RESOURCE_EXHAUSTED, CODE),
    503: Failure(503, True, CODES.UNAVAILABLE, CODE),
    504: Failure(504, True, CODES.DEADLINE_EXCEEDED, CODE),
    529: Failure(503, True, CODES.UNAVAILABLE, CODE),
}


def failure_of(code: int) -> Failure:
    """What becomes of a status of the upstream."""
    if code in KEPT:
        return KEPT[code]
    if code in (401, 402, 403) or code < 400:
        return OPERATOR
    if code < 500:
        return REFUSED._replace(told=CODE)
    if code in (500, 502, *range(520, 525)):
        return TEMPORARY._replace(told=CODE)
    return OPERATOR._replace(told=CODE)


def _error_event(*before: bytes, **error: Any) -> Callable[[Exchange], Awaitable[None]]:
    """A stream that has an error instead of text."""
    limits = "".join(f"{line}\r\n" for line in LIMITS)

    async def reply(exchange: Exchange) -> None:
        await exchange.send(HEAD[:-2] + limits.encode() + b"\r\n")
        await exchange.chunk(*before, event({"error": {"message": "No", **error}}))
        await exchange.end()

    return reply


def _error_body(**error: Any) -> Callable[[Exchange], Awaitable[None]]:
    """The same in one piece."""
    body = json.dumps({"error": {"message": "No", **error}})
    return status(200, body, "Content-Type: application/json", *LIMITS)


async def _reset(exchange: Exchange) -> None:
    exchange.reset()


async def _close(exchange: Exchange) -> None:
    exchange.writer.close()


async def _until_left(exchange: Exchange) -> None:
    await exchange.until_left()


async def _head_then_reset(exchange: Exchange) -> None:
    await exchange.begin()
    exchange.reset()


async def _role_then_reset(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(delta({"role": "assistant"}))
    exchange.reset()


async def _heartbeats_then_close(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(b": waiting\n\n", b": waiting\n\n")
    exchange.writer.close()


def _whole(kind: str, body: str) -> Callable[[Exchange], Awaitable[None]]:
    return status(200, body, f"Content-Type: {kind}")


def _streamed(*chunks: bytes) -> Callable[[Exchange], Awaitable[None]]:
    async def reply(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        await exchange.chunk(*chunks)
        await exchange.end()

    return reply


BROKEN: dict[str, tuple[Callable[[Exchange], Awaitable[None]], Failure]] = {
    "a reset": (_reset, TEMPORARY),
    "no response": (_close, TEMPORARY),
    "a timeout": (_until_left, Failure(504, True, CODES.DEADLINE_EXCEEDED)),
    "a reset after the head": (_head_then_reset, TEMPORARY),
    "a reset after the role": (_role_then_reset, TEMPORARY),
    "comments and no more": (_heartbeats_then_close, TEMPORARY),
    "an empty stream": (_streamed(), TEMPORARY),
    "only [DONE]": (_streamed(DONE), TEMPORARY),
    "no JSON": (_streamed(event("{")), OPERATOR),
    "a passing error event": (
        _error_event(type="server_error", code=CODE),
        TEMPORARY._replace(told=CODE),
    ),
    "an error event about the limit": (
        _error_event(type="tokens", code="rate_limit_exceeded"),
        KEPT[429]._replace(told="rate_limit_exceeded"),
    ),
    "an error event with a number": (_error_event(status=503, code=CODE), KEPT[503]),
    "an error event after the role": (
        _error_event(delta({"role": "assistant"}), type="rate_limit_error", code=CODE),
        KEPT[429],
    ),
    "an error event about the load": (_error_event(type="overloaded_error", code=CODE), KEPT[529]),
    "an error event about the request": (
        _error_event(type="invalid_request_error", code=CODE),
        REFUSED._replace(told=CODE),
    ),
    "an error event about the key": (_error_event(code="invalid_api_key"), OPERATOR),
    "an error event about the bill": (_error_event(code="insufficient_quota"), OPERATOR),
    "an error event of another kind": (_error_event(code=CODE), OPERATOR._replace(told=CODE)),
    "an error in a whole answer": (
        _error_body(type="requests", code="rate_limit_exceeded"),
        KEPT[429]._replace(told="rate_limit_exceeded"),
    ),
    "an error in a whole answer about its length": (
        _error_body(type="invalid_request_error", code=TOO_LONG),
        REFUSED._replace(told=TOO_LONG),
    ),
    TOO_LONG: (
        status(400, json.dumps({"error": {"message": "No", "code": TOO_LONG}}), *LIMITS),
        REFUSED._replace(told=TOO_LONG),
    ),
    HIDDEN: (status(404, json.dumps({"error": {"code": CODE}}), *LIMITS), OPERATOR),
    "a pause in milliseconds": (
        status(429, json.dumps({"error": {"code": CODE}}), "Retry-After-Ms: 6500", LIMITS[1]),
        KEPT[429],
    ),
    "a page": (_whole("text/html", "<html>Sign in</html>"), OPERATOR),
    "an empty page": (_whole("text/html", ""), OPERATOR),
    "an empty JSON body": (_whole("application/json", ""), OPERATOR),
    "half a JSON body": (_whole("application/json", '{"choices": ['), OPERATOR),
}
IN_THE_PROCESS: dict[str, tuple[Exception, Failure]] = {
    "unavailable": (torvyn.Unavailable("away"), Failure(503, True, CODES.UNAVAILABLE)),
    "too slow": (torvyn.DeadlineExceeded("late"), Failure(504, True, CODES.DEADLINE_EXCEEDED)),
    "invalid": (torvyn.InvalidInput("no"), REFUSED),
    "broken": (ValueError("boom"), Failure(500, False, CODES.INTERNAL)),
}
"""Failures of engines without an upstream, before their first step. Each is a flow."""
UNREACHABLE = "unreachable"
LATE = "late"
FAIL = threading.Event()
"""For `LATE`: it fails when this is set."""


def expected(case: str) -> Failure:
    if case == UNREACHABLE:
        return TEMPORARY
    if case in IN_THE_PROCESS:
        return IN_THE_PROCESS[case][1]
    return BROKEN[case][1] if case in BROKEN else failure_of(int(case))


async def _reply(exchange: Exchange) -> None:
    """As the prompt says."""
    body = exchange.body
    case = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
    if case in BROKEN:
        await BROKEN[case][0](exchange)
        return
    if case == LATE:
        await asyncio.to_thread(FAIL.wait, PATIENCE_S)
        case = "429"
    code = int(case)
    has_body = code not in (204, 304)
    error = f'{{"error": {{"message": "No", "type": "t", "code": "{CODE}"}}}}' if has_body else ""
    await exchange.status(code, error, "Location: http://127.0.0.1:1/", *LIMITS)


def _closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def gateway(**settings: Any) -> Iterator[tuple[Served, Upstream]]:
    """A gateway in front of it. The flow `chat` asks it, `hidden` hides that it has no such model,
    `slow` waits for it a moment only, and nobody is behind `away`."""
    with running(_reply) as upstream:
        options: dict[str, Any] = {
            "base_url": upstream.url,
            "model": "m",
            "api_key": "-",
            "retries": 0,
        }
        away = f"http://127.0.0.1:{_closed_port()}/v1"
        engines = {
            "chat": open_engine("openai", **options),
            "hidden": open_engine("openai", **options, hide_not_found=True),
            "slow": open_engine("openai", **options, first_token_timeout_s=0.05),
            "away": open_engine("openai", **{**options, "base_url": away}),
        }
        for name, (error, _) in IN_THE_PROCESS.items():
            engines[name] = Scripted("a", fail_at=0, error=error)
        services = {name: Service(name, engine) for name, engine in engines.items()}
        with served(services, **{"first_byte_wait_s": PATIENCE_S, **settings}) as server:
            yield server, upstream


def flow_of(case: str) -> str:
    if case in IN_THE_PROCESS:
        return case
    return {"a timeout": "slow", UNREACHABLE: "away", HIDDEN: "hidden"}.get(case, "chat")
