"""The gRPC transport: requests as messages, health, and operations that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from live_server import Served, served

from torvyn.client import AsyncClient
from torvyn.engine import Request, Scripted
from torvyn.errors import InvalidInput

FUNCTION = {"name": "now", "description": "The time", "parameters": {"type": "object"}}
CALL = {"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}
OPTIONS: dict[str, Any] = {
    "max_tokens": 5,
    "temperature": 0.5,
    "seed": 7,
    "stop": ["END"],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "now"}},
    "response_format": {"type": "json_object"},
    "user": "somebody",
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "content": "12:00", "tool_call_id": "c"},
]


@pytest.fixture
def requests() -> list[Request]:
    """The requests that the engine has received."""
    return []


@pytest.fixture
def server(requests: list[Request]) -> Iterator[Served]:
    def script(request: Request, _: int) -> list[str]:
        requests.append(request)
        return ["ok"]

    with served(Scripted(script), grpc_port=0) as server:
        yield server


def over_grpc(server: Served) -> AsyncClient:
    return AsyncClient(f"http://{server.grpc}", transport="grpc")


async def test_all_fields_of_a_request_are_sent_over_grpc(
    server: Served, requests: list[Request]
) -> None:
    async with AsyncClient(server.url) as plain, over_grpc(server) as client:
        for one in (plain, client):
            await one.stream(MESSAGES, **OPTIONS).complete()

    first, second = (replace(request, id="") for request in requests)
    assert [dict(message) for message in second.messages] == MESSAGES
    assert first == second


async def test_a_client_over_grpc_describes_its_server(server: Served) -> None:
    async with over_grpc(server) as client:
        assert await client.health() == "ready"
        with pytest.raises(InvalidInput, match="not possible over gRPC"):
            await client.models()


@pytest.mark.parametrize("options", [{"bogus": 1}, {"max_tokens": "many"}, {"tools": [{}]}])
async def test_options_without_a_grpc_field_are_errors_before_sending(
    server: Served, options: dict[str, Any]
) -> None:
    async with over_grpc(server) as client:
        with pytest.raises(InvalidInput) as caught:
            await client.stream("Hi", **options).complete()
        assert caught.value.code == "client.bad-option"
        assert (await client.stream("Hi").complete()).text == "ok"
