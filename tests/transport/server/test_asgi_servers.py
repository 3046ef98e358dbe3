"""The ASGI application under the servers that people use: the same answers from each of them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from live_server import PATIENCE_S, ask, wait_for
from websockets.sync import client as websockets

PROGRAM = """
from torvyn.engine import Scripted, Service
from torvyn.serve import ServerSettings, app

ENGINES = {
    "chat": Scripted("one two three"),
    "slow": Scripted("word " * 10_000, delay=0.01),
    "broken": Scripted("one two three", fail_at=1),
}
services = {name: Service(name, engine) for name, engine in ENGINES.items()}
application = app(services, ServerSettings(write_timeout_s=2))
"""
COMMANDS = {
    "uvicorn": ("--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning"),
    "hypercorn": ("--bind", "127.0.0.1:{port}"),
    "granian": ("--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}"),
}
MANY = "x" * 900_000


class Hosted:
    """The application in a process of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def open(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.urlopen(self.url + path, data, timeout=PATIENCE_S)

    def ask(self, path: str, body: Any = None) -> tuple[int, str]:
        return ask(self.url + path, body)

    def is_ready(self) -> bool:
        try:
            return self.ask("/readyz")[0] == 200
        except OSError:
            return False

    def running(self) -> list[Any]:
        return list(json.loads(self.ask("/flows")[1])["streams"])


@pytest.fixture(scope="module", params=COMMANDS)
def hosted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosted]:
    name: str = request.param
    folder: Path = tmp_path_factory.mktemp(name)
    (folder / "program.py").write_text(PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as free:
        hosted = Hosted(free.getsockname()[1])
    options = [option.format(port=hosted.port) for option in COMMANDS[name]]
    command = [sys.executable, "-m", name, "program:application", *options]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        wait_for(hosted.is_ready)
        yield hosted
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()


def test_a_stream_arrives_as_events_up_to_its_end(hosted: Hosted) -> None:
    status, text = hosted.ask("/v1/streams", {"flow": "chat", "prompt": "Hi"})

    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert (status, events[0]["type"], events[-1]["type"]) == (200, "start", "end")
    assert "".join(event.get("text", "") for event in events) == "one two three"


def test_text_arrives_while_the_engine_works_and_the_engine_stops_with_its_client(
    hosted: Hosted,
) -> None:
    with hosted.open("/v1/streams", {"flow": "slow", "prompt": "Hi"}) as answer:
        while b"delta" not in answer.readline():
            pass
        assert [stream["flow"] for stream in hosted.running()] == ["slow"]
    wait_for(lambda: not hosted.running())


def test_an_error_of_the_engine_ends_the_stream_and_says_so(hosted: Hosted) -> None:
    _, text = hosted.ask("/v1/streams", {"flow": "broken", "prompt": "Hi"})

    assert '"type":"error"' in text
    assert text.rstrip().splitlines()[-1].startswith('data: {"type":"end"')


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"flow": "none", "prompt": "Hi"}, 404, "transport.flow-unknown"),
        ({"flow": "chat"}, 400, "transport.request-invalid"),
    ],
)
def test_a_rejection_has_its_status_and_code(
    hosted: Hosted, body: Any, status: int, code: str
) -> None:
    found, text = hosted.ask("/v1/streams", body)

    assert (found, json.loads(text)["error"]["code"]) == (status, code)


def test_a_body_that_is_too_large_is_rejected_before_it_is_sent(hosted: Hosted) -> None:
    connection = HTTPConnection("127.0.0.1", hosted.port, timeout=PATIENCE_S)
    connection.putrequest("POST", "/v1/streams")
    connection.putheader("content-length", str(2 * len(MANY)))
    connection.endheaders()
    with closing(connection), connection.getresponse() as answer:
        code = json.loads(answer.read())["error"]["code"]

    assert (answer.status, code) == (413, "transport.body-too-large")


def test_a_large_body_is_read_whole(hosted: Hosted) -> None:
    messages = [{"role": "user", "content": MANY}]
    status, text = hosted.ask("/v1/chat/completions", {"model": "chat", "messages": messages})

    assert status == 200
    assert json.loads(text)["choices"][0]["message"]["content"] == "one two three"


def test_a_websocket_carries_streams(hosted: Hosted) -> None:
    address = f"ws://127.0.0.1:{hosted.port}/v1/ws"
    with websockets.connect(address) as channel:
        channel.send(json.dumps({"type": "start", "stream_id": "a", "flow": "chat", "prompt": "x"}))
        frames = []
        while not frames or frames[-1]["type"] != "end":
            frames.append(json.loads(channel.recv(PATIENCE_S)))
    assert "".join(frame.get("text", "") for frame in frames) == "one two three"
