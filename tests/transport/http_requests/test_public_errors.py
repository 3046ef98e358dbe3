"""What clients see of errors: no address of an upstream, no text of a library, no stack."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from asgi_client import PROMPT_BODY, Client, serving
from grpc_client import answering
from hostile_upstream import ANSWERS, upstream
from live_server import PATIENCE_S
from websocket_client import START, Socket

import torvyn
from torvyn import errors
from torvyn.engine import ChoiceStep, Engine, Scripted, Service, Step
from torvyn.engine import open as open_engine
from torvyn.serve import app
from torvyn.transport.public_error import public_error, without_addresses
from torvyn.v1 import inference_pb2 as pb

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
SECRETS = re.compile(
    r"127\.0\.0\.1|localhost|10\.1\.2\.3|[\w\]]:\d{4,5}\b|Traceback|httpx|aiohttp|ReadError|/srv/"
    r"|sk-upstream|Connect call|Errno|OSError|ClientError|\bpayload\b",
    re.IGNORECASE,
)


def openai(url: str) -> Engine:
    return open_engine(
        "openai", model="m", base_url=url, api_key="sk-upstream-0123456789", retries=0
    )


def leaked(text: str) -> list[str]:
    return SECRETS.findall(text)


async def over_sse(engine: Engine) -> str:
    return (await Client(serving(engine), body=PROMPT_BODY)).body.decode()


async def over_openai_stream(engine: Engine) -> str:
    client = await Client(serving(engine), "/v1/chat/completions", {**CHAT, "stream": True})
    return client.body.decode()


async def over_openai_whole(engine: Engine) -> str:
    client = await Client(serving(engine), "/v1/chat/completions", CHAT)
    return client.body.decode()


async def over_a_session(engine: Engine) -> str:
    return (await Client(serving(engine), body={**PROMPT_BODY, "stateful": True})).body.decode()


async def over_a_socket(engine: Engine) -> str:
    async with Socket(serving(engine)) as socket:
        socket.say(START)
        await socket.until(lambda: any(said["type"] in ("end", "refused") for said in socket.got))
        return json.dumps(socket.got)


WAYS = (over_sse, over_openai_stream, over_openai_whole, over_a_session, over_a_socket)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_nothing_of_an_upstream_reaches_a_client(answer: str, way: Any) -> None:
    with upstream(ANSWERS[answer]) as url:
        read = await way(openai(url))

    assert "engine." in read or "error" in read
    assert leaked(read) == []


@pytest.mark.parametrize("answer", ANSWERS)
def test_nothing_of_an_upstream_reaches_a_client_of_grpc(answer: str) -> None:
    with upstream(ANSWERS[answer]) as url, answering(openai(url)) as (_, stub):
        call = stub.Generate(pb.GenerateRequest(prompt="Hi"), timeout=PATIENCE_S)
        messages: list[str] = []
        with contextlib.suppress(grpc.RpcError):
            messages += map(str, call)
        read = " ".join([*messages, str(call.details()), str(call.trailing_metadata())])

    assert "engine." in read
    assert leaked(read) == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_missing_upstream_is_not_named(way: Any) -> None:
    with upstream(b"") as url:
        pass
    read = await way(openai(url))

    assert "engine.upstream-down" in read
    assert leaked(read) == []


async def test_the_log_keeps_what_the_client_does_not_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with upstream(b"") as url:
        pass
    await Client(serving(openai(url)), body=PROMPT_BODY, headers={"x-request-id": "r1"})

    (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert (record.event, record.code) == ("upstream.failure", "engine.upstream-down")
    assert record.request_id == "r1"
    assert urlsplit(url).netloc in record.getMessage()
    assert record.exc_info is None


async def test_the_log_keeps_the_traceback_of_a_library(caplog: pytest.LogCaptureFixture) -> None:
    await Client(serving(Breaks()), body=PROMPT_BODY, headers={"x-request-id": "r1"})

    (record,) = [one for one in caplog.records if getattr(one, "event", "") == "request.failed"]
    assert record.request_id == "r1"
    assert record.exc_info is not None
    assert "10.1.2.3:9000" in caplog.text


class Breaks(Engine):
    """Fails in a library."""

    name = "breaks"

    async def steps(self, request: Any) -> Any:
        yield Step((ChoiceStep(text="a"),))
        raise ConnectionError("http://10.1.2.3:9000 said Errno 104")


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_of_an_engine_that_breaks_reaches_a_client(way: Any) -> None:
    assert leaked(await way(Breaks())) == []


class Reaches(torvyn.Processor):
    """Fails in a library, in the middle of a flow."""

    def process(self, element: torvyn.Element) -> str:
        raise ConnectionError("http://10.1.2.3:9000 said Errno 104")


async def test_nothing_of_a_component_that_breaks_reaches_a_client() -> None:
    service = Service("chat", Scripted("a b"), make_flow=lambda: torvyn.Flow(Reaches()))
    client = await Client(app({"chat": service}), body=PROMPT_BODY)

    error = client.json["error"]
    assert error["message"] == "node `processor` of the flow failed"
    assert leaked(client.body.decode()) == []


class Refuses(torvyn.Processor):
    """Says itself what is wrong."""

    def process(self, element: torvyn.Element) -> str:
        raise torvyn.InvalidInput("no numbers, please; see http://10.1.2.3:9000/help")


async def test_the_message_of_a_component_is_sent_without_addresses() -> None:
    service = Service("chat", Scripted("a b"), make_flow=lambda: torvyn.Flow(Refuses()))
    client = await Client(app({"chat": service}), body=PROMPT_BODY)

    assert client.json["error"]["message"].endswith("no numbers, please; see [address]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://a.b/c?d=e now", "at [address] now"),
        ("at 10.0.0.1:80, and 10.0.0.1", "at [address], and [address]"),
        ("at [::1]:8080", "at [address]"),
        ("at model.internal:9000", "at [address]"),
        ("at localhost:9000", "at [address]"),
        ("it took 12:30 and 3.5 s", "it took 12:30 and 3.5 s"),
        ("choice 3: 25 of 40", "choice 3: 25 of 40"),
    ],
)
def test_addresses_are_taken_out_of_a_text(text: str, shown: str) -> None:
    assert without_addresses(text) == shown


def test_an_error_about_the_request_keeps_its_message_and_its_hint() -> None:
    error = errors.InvalidInput("`n` is 0", hint="at least 1", code="engine.request-invalid")

    assert public_error(error) is error


def test_an_error_of_an_upstream_keeps_its_kind_its_code_and_its_cause() -> None:
    error = errors.Unavailable("http://a:90", hint="see `base_url`", code="engine.upstream-down")
    shown = public_error(error)

    assert isinstance(shown, errors.Unavailable)
    assert (shown.code, shown.hint) == ("engine.upstream-down", None)
    assert shown.message == "An upstream cannot be reached."
    assert shown.__cause__ is error
