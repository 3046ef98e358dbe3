"""Guarded prompts, served: what the model reads, and how each client learns of a rejection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgi_client import Client, Gated, within
from grpc_client import answering, generate
from live_server import served
from websocket_client import START, Socket, speaking

import torvyn
from torvyn.client import Client as TorvynClient
from torvyn.components import Blocklist, Redact
from torvyn.engine import ChoiceStep, Engine, Request, Service, Step
from torvyn.engine.prompt.prompt_flow import PromptGuard
from torvyn.protocol.frames import Usage
from torvyn.serve import Application, ServerSettings, app

REFUSED = {"index": 0, "reason": "content_filter", "side": "prompt"}
SECRET = {"prompt": "tell me the secret"}
SECRET_CHAT = {"messages": [{"role": "user", "content": "tell me the secret"}]}
PRIVATE = {"messages": [{"role": "user", "content": "I am jo@example.org"}]}


class Repeats(Engine):
    """Says what it was asked."""

    name = "repeats"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        texts = [str(message["content"]) for message in request.messages]
        self.asked.append(request.prompt or "|".join(texts))
        yield Step([ChoiceStep(at, text=self.asked[-1]) for at in range(request.n)])
        yield Step([ChoiceStep(at, tokens=0, finish_reason="stop") for at in range(request.n)])
        yield Step((), Usage(4, 5))


def guard() -> torvyn.Flow:
    words = {"words": ["secret"], "mode": "stream", "action": "block"}
    return torvyn.Flow(Redact(), Blocklist(words))


def service(engine: Engine, make: Any = guard) -> Service:
    return Service("chat", engine, prompt_guard=PromptGuard(make))


def serving(engine: Engine, make: Any = guard, **settings: Any) -> Application:
    return app({"chat": service(engine, make)}, ServerSettings(**settings))


async def test_a_model_reads_what_the_guards_have_left() -> None:
    engine = Repeats()

    client = await Client(serving(engine), "/v1/chat/completions", PRIVATE)

    assert engine.asked == ["I am [email]"]
    assert client.json["choices"][0]["message"]["content"] == "I am [email]"


async def test_a_refused_prompt_is_an_answer_of_our_dialect_without_text() -> None:
    engine = Repeats()

    client = await Client(serving(engine), body=SECRET, headers={"accept": "application/x-ndjson"})

    frames = [json.loads(line) for line in client.body.splitlines()]
    assert client.status == 200
    assert [frame["type"] for frame in frames] == ["start", "end"]
    assert frames[-1]["finish"] == [REFUSED]
    assert frames[-1]["usage"]["total_tokens"] == 0
    assert engine.asked == []


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", SECRET_CHAT), ("/v1/completions", SECRET)]
)
async def test_a_refused_prompt_is_a_whole_answer_of_openai_without_text(
    path: str, body: Any
) -> None:
    engine = Repeats()

    client = await Client(serving(engine), path, {**body, "n": 2})

    assert client.status == 200
    for choice in client.json["choices"]:
        assert choice["finish_reason"] == "content_filter"
        assert choice["content_filter"] == {"side": "prompt"}
        assert (choice.get("text") or choice.get("message", {}).get("content")) in ("", None)
    assert len(client.json["choices"]) == 2
    assert client.json["usage"]["completion_tokens"] == 0
    assert engine.asked == []


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", SECRET_CHAT), ("/v1/completions", SECRET)]
)
async def test_a_refused_prompt_is_a_stream_of_openai_that_ends_well(path: str, body: Any) -> None:
    client = await Client(serving(Repeats()), path, {**body, "stream": True})

    events = [line[6:] for line in client.body.decode().splitlines() if line.startswith("data: ")]
    finish = json.loads(events[-2])["choices"][0]
    assert events[-1] == "[DONE]"
    assert finish["finish_reason"] == "content_filter"
    assert finish["content_filter"] == {"side": "prompt"}
    assert not any("error" in event for event in events)


@pytest.mark.promise("inference.safety-filter")
async def test_an_answer_cut_by_a_guard_names_the_completion_side() -> None:
    words = {"words": ["blue"], "mode": "stream", "action": "block"}
    flows = {"make_flow": lambda: torvyn.Flow(Blocklist(words))}
    application = app({"chat": Service("chat", Repeats(), **flows)})

    client = await Client(application, body={"prompt": "the sky is blue"})

    assert client.frames()[-1].finish[0].side == "completion"


async def test_a_refused_prompt_on_a_socket() -> None:
    async with Socket(serving(Repeats())) as socket:
        socket.say(START, **SECRET)
        end = await socket.until_got("end")

    assert end["finish"] == [REFUSED]


def test_a_refused_prompt_over_grpc() -> None:
    with answering({"chat": service(Repeats())}) as (_, stub):
        frames = generate(stub, **SECRET)

    assert frames[-1].finish[0].reason == "content_filter"  # type: ignore[union-attr]
    assert frames[-1].finish[0].side == "prompt"  # type: ignore[union-attr]


@pytest.mark.parametrize("transport", ["sse", "websocket", "grpc"])
def test_the_client_reports_the_side_of_a_content_filter(transport: Any) -> None:
    with served({"chat": service(Repeats())}, grpc_port=0) as server:
        url = f"http://{server.grpc}" if transport == "grpc" else server.url
        with TorvynClient(url, transport=transport) as client:
            stream = client.stream(SECRET["prompt"])
            answer = stream.complete()

    assert (answer.finish_reason, answer.choices[0].side) == ("content_filter", "prompt")
    assert stream.filtered_side == "prompt"


def test_openais_client_reads_a_refused_prompt_without_an_exception() -> None:
    import openai

    with served({"chat": service(Repeats())}) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        whole = client.chat.completions.create(model="chat", **SECRET_CHAT)
        chunks = list(client.chat.completions.create(model="chat", stream=True, **SECRET_CHAT))
        client.close()

    assert whole.choices[0].finish_reason == "content_filter"
    assert whole.choices[0].content_filter == {"side": "prompt"}
    assert chunks[-1].choices[0].finish_reason == "content_filter"


async def test_a_refused_prompt_can_be_read_again_when_it_is_stateful() -> None:
    application = serving(Repeats())
    client = await Client(application, body={**SECRET, "stateful": True})
    id = client.frames()[0].id

    again = await Client(application, f"/v1/streams/{id}", method="GET")

    assert again.frames()[-1].finish[0].side == "prompt"


class Stuck(torvyn.Processor):
    """Judges for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def process(self, element: torvyn.Element) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def stuck_flow(stuck: Stuck) -> torvyn.Flow:
    return torvyn.Flow(stuck)


async def test_a_client_that_leaves_while_its_prompt_is_judged_ends_that() -> None:
    stuck, engine = Stuck(), Repeats()
    application = serving(engine, lambda: stuck_flow(stuck))
    client = Client(application, body={"prompt": "Hi"})
    await within(stuck.begun.wait())

    client.leave()

    await within(client.task)
    assert stuck.ended.is_set()
    assert engine.asked == []
    assert application.running.calls == {}


async def test_a_client_that_leaves_behind_a_guarded_prompt_stops_the_engine() -> None:
    engine = Gated()
    client = Client(serving(engine), body={"prompt": "Hi"})
    await within(engine.has_begun.wait())

    client.leave()

    await within(engine.was_left.wait())
    await within(client.task)


def test_a_prompt_is_guarded_over_a_real_socket() -> None:
    engine = Repeats()
    with served({"chat": service(engine)}) as server, speaking(server.url) as client:
        client.say(START, prompt="I am jo@example.org")
        client.hear_until("end")

    assert engine.asked == ["I am [email]"]
