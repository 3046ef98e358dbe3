"""Clients from npm in node: `openai`, and `ai` with `@ai-sdk/openai-compatible`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import missing
import node_clients
import pytest
from live_server import Served, served, wait_for

from torvyn.engine import Scripted, Service
from torvyn.protocol import ToolCall

pytestmark = missing.needs("clients from npm", is_there=node_clients.are_there())

TEXT = 'Grüße, "Welt"! 🎉\u2028 a\nb'
LONG = "Wörter, one after the other. " * 4000
PIECES = (
    ToolCall(0, "call_1", "now", '{"zo'),
    ToolCall(0, arguments='ne": "U'),
    ToolCall(0, arguments='TC"}'),
)
TOOLS: Any = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]
NOBODY_STOPS = Scripted(["word "] * 100_000, delay=0.005)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    engines = {
        "chat": Scripted(TEXT, token_bytes=1),
        "long": Scripted(LONG),
        "two": Scripted(answers=["one", "other"]),
        "tool": Scripted([*PIECES], finish_reason="tool_calls"),
        "filtered": Scripted("so far", finish_reason="content_filter"),
        "short": Scripted("so far", finish_reason="length"),
        "broken": Scripted("a b", fail_at=1),
        "quiet": Scripted("a b", first_delay=0.2, delay=0.1),
        "endless": NOBODY_STOPS,
    }
    services = {name: Service(name, engine) for name, engine in engines.items()}
    with served(services, heartbeat_s=0.02) as running:
        yield running


class Clients:
    """Both, as functions of a flow and options."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder

    def openai(self, model: str, **options: Any) -> dict[str, Any]:
        return node_clients.ask(self._folder, "openai", url=self._url, model=model, **options)

    def ai(self, model: str, **options: Any) -> dict[str, Any]:
        return node_clients.ask(self._folder, "ai", url=self._url, model=model, **options)


@pytest.fixture(scope="module")
def clients(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Clients:
    return Clients(server.url, tmp_path_factory.mktemp("node"))


@pytest.mark.parametrize(("flow", "text"), [("chat", TEXT), ("long", LONG), ("quiet", "a b")])
def test_every_character_arrives_whatever_the_length_and_between_heartbeats(
    clients: Clients, flow: str, text: str
) -> None:
    by_openai, by_ai = clients.openai(flow), clients.ai(flow)

    assert (by_openai["texts"], by_openai["finish"]) == ([text], ["stop"])
    assert (by_ai["text"], by_ai["finish"]) == (text, "stop")
    assert by_openai["error"] is by_ai["error"] is None


def test_usage_is_sent_on_request(clients: Clients) -> None:
    plain = clients.openai("two")
    asked = clients.openai("two", stream_options={"include_usage": True})
    by_ai = clients.ai("two")

    assert plain["usage"] is None
    assert asked["usage"]["completion_tokens"] == 1
    assert by_ai["usage"]["outputTokens"] == 1


def test_several_choices_and_log_probabilities(clients: Clients) -> None:
    seen = clients.openai("two", n=2, logprobs=True, top_logprobs=2)

    assert seen["texts"] == ["one", "other"]
    assert seen["finish"] == ["stop", "stop"]
    assert seen["logprobs"] == 2


def test_calls_of_tools_come_in_pieces_and_are_whole_at_the_end(clients: Clients) -> None:
    (call,) = clients.openai("tool", tools=TOOLS)["calls"].values()
    by_ai = clients.ai("tool", tools=["now"])

    assert (call["id"], call["name"], call["parts"]) == ("call_1", "now", len(PIECES))
    assert json.loads(call["arguments"]) == {"zone": "UTC"}
    assert by_ai["calls"] == [{"name": "now", "input": {"zone": "UTC"}}]
    assert by_ai["finish"] == "tool-calls"


@pytest.mark.parametrize(("flow", "reason"), [("filtered", "content_filter"), ("short", "length")])
def test_an_incomplete_answer_gives_the_reason(clients: Clients, flow: str, reason: str) -> None:
    by_openai, by_ai = clients.openai(flow), clients.ai(flow)

    assert (by_openai["texts"], by_openai["finish"]) == (["so far"], [reason])
    assert (by_ai["text"], by_ai["finish"]) == ("so far", reason.replace("_", "-"))


def test_an_error_in_the_middle_is_an_error_of_the_client(clients: Clients) -> None:
    by_openai, by_ai = clients.openai("broken"), clients.ai("broken")

    assert by_openai["texts"] == ["a"]
    assert by_openai["error"]["name"] == "APIError"
    assert "the script fails here" in by_openai["error"]["text"]
    assert by_ai["text"] == "a"
    assert "the script fails here" in by_ai["error"]
    assert by_ai["finish"] == "error"


def test_an_error_before_the_answer_is_one_too(clients: Clients) -> None:
    unknown = clients.openai("nobody")
    by_ai = clients.ai("nobody")

    assert (unknown["error"]["name"], unknown["error"]["status"]) == ("NotFoundError", 404)
    assert "no flow is named 'nobody'" in by_ai["error"]


@pytest.mark.parametrize("name", ["openai", "ai"])
def test_a_client_that_aborts_ends_the_engine(clients: Clients, name: str) -> None:
    before = len(NOBODY_STOPS.aborted)

    getattr(clients, name)("endless", leaveAt=10)

    assert wait_for(lambda: len(NOBODY_STOPS.aborted) == before + 1)


@pytest.mark.parametrize("flow", ["chat", "tool", "quiet", "two"])
def test_the_helper_that_joins_chunks_finds_nothing_missing(clients: Clients, flow: str) -> None:
    seen = clients.openai(flow, helper=True)

    assert seen["error"] is None
    assert seen["finish"] == ["tool_calls" if flow == "tool" else "stop"]
