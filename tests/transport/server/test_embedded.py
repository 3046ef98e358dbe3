"""The application mounted in a FastAPI program that uvicorn serves: `examples/fastapi-embed`."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastapi
import httpx
import openai
import pytest
import uvicorn
from asgi_client import Endless, Gated
from live_server import PATIENCE_S, wait_for

from torvyn.engine import Scripted, Service
from torvyn.errors import Unavailable
from torvyn.serve import Application, ServerSettings, app

EXAMPLE = Path(__file__).parents[3] / "examples" / "fastapi-embed"
PROMPT_BODY = {"prompt": "Hi"}
MESSAGES: Any = [{"role": "user", "content": "Hi"}]


class Host:
    """A program that uvicorn serves, on a thread of its own."""

    def __init__(self, program: Any, grace_s: int = 5) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        # What waits in the kernel is little, so that a reader that stops is soon felt.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        self.address: tuple[str, int] = self._socket.getsockname()
        self.url = "http://{}:{}".format(*self.address)
        config = uvicorn.Config(
            program, log_level="warning", timeout_graceful_shutdown=grace_s, lifespan="on"
        )
        self._server = uvicorn.Server(config)
        run = self._server.run
        self._thread = threading.Thread(target=run, args=([self._socket],), daemon=True)
        self._thread.start()
        wait_for(lambda: self._server.started)

    def ask_to_end(self) -> None:
        self._server.should_exit = True

    def end(self) -> None:
        self.ask_to_end()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@contextmanager
def hosted(program: Any, **options: Any) -> Iterator[Host]:
    host = Host(program, **options)
    try:
        yield host
    finally:
        host.end()


def mounted(application: Application) -> Any:
    program = fastapi.FastAPI(lifespan=application.lifespan)
    program.mount("/ai", application)
    return program


def served(engine: Any, **settings: Any) -> Application:
    return app({"chat": Service("chat", engine)}, ServerSettings(heartbeat_s=0.05, **settings))


def example(folder: Path) -> Any:
    """The program, from a copy of its folder."""
    copy = shutil.copytree(EXAMPLE, folder / EXAMPLE.name, symlinks=True)
    spec = importlib.util.spec_from_file_location("embedding_example", copy / "main.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def asking(url: str, path: str = "/ai/v1/streams") -> Iterator[Any]:
    with (
        httpx.Client(timeout=PATIENCE_S) as client,
        client.stream("POST", url + path, json=PROMPT_BODY) as answer,
    ):
        yield answer


def test_the_example_answers_openais_client_and_keeps_its_own_routes(tmp_path: Path) -> None:
    with hosted(example(tmp_path).program) as host:
        home = httpx.get(host.url).json()
        base_url = host.url + home["openai"]
        with openai.OpenAI(base_url=base_url, api_key="-", max_retries=0) as client:
            chunks = list(
                client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
            )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "Write to [email], and ask for the manual."
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_its_document_has_the_path_at_which_it_is_mounted() -> None:
    with hosted(mounted(served(Scripted("Hello")))) as host:
        document = httpx.get(f"{host.url}/ai/openapi.json").json()
        missing = httpx.get(f"{host.url}/ai/nothing")

    assert document["servers"] == [{"url": "/ai"}]
    assert "/v1/chat/completions" in document["paths"]
    assert missing.json()["error"]["code"] == "transport.route-unknown"


def test_a_proxy_that_takes_a_prefix_away_may_say_so_by_root_path() -> None:
    program = mounted(served(Scripted("Hello")))
    with hosted(fastapi_below("/outer", program)) as host:
        answer = httpx.post(f"{host.url}/outer/ai/v1/streams", json=PROMPT_BODY)

    assert json.loads(answer.text.split("data: ")[2].splitlines()[0])["text"] == "Hello"


def fastapi_below(prefix: str, program: Any) -> Any:
    outer = fastapi.FastAPI()
    outer.mount(prefix, program)
    return outer


def test_a_client_that_leaves_ends_the_engine() -> None:
    engine = Gated()
    with hosted(mounted(served(engine, first_byte_wait_s=0.0))) as host:
        with asking(host.url) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert not engine.was_left.is_set()
        assert wait_for(engine.was_left.is_set)


def wrapped(application: Application) -> Any:
    """With the kind of middleware that people write first."""
    program = mounted(application)

    @program.middleware("http")
    async def stamp(request: Any, call_next: Any) -> Any:
        answer = await call_next(request)
        answer.headers["x-stamp"] = "1"
        return answer

    return program


def test_middleware_of_the_program_neither_holds_chunks_up_nor_hides_that_a_client_left() -> None:
    engine = Gated()
    with hosted(wrapped(served(engine, first_byte_wait_s=0.0))) as host:
        with asking(host.url) as answer:
            assert answer.headers["x-stamp"] == "1"
            lines = answer.iter_lines()
            # The engine has said nothing yet; what comes is the start and heartbeats.
            assert '"start"' in next(line for line in lines if line.startswith("data"))
            assert next(line for line in lines if line.startswith(":"))
        assert wait_for(engine.was_left.is_set)


def test_a_client_that_stops_reading_is_cut_behind_middleware_too() -> None:
    engine = Endless()
    application = served(engine, write_timeout_s=0.5)
    with hosted(wrapped(application)) as host, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(host.address)
        head = b"POST /ai/v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n"
        client.sendall(head + b'{"prompt": "Hi"}')
        # It would never be seen if somebody between read ahead without end.
        assert wait_for(engine.was_left.is_set)


def test_the_end_of_the_program_closes_the_engine() -> None:
    engine = Scripted("Hello")
    application = served(engine)
    with hosted(mounted(application)) as host:
        httpx.post(f"{host.url}/ai/v1/streams", json=PROMPT_BODY)
        assert engine.complete("Hi").text == "Hello"

    assert application.running.is_draining
    with pytest.raises(Unavailable, match="is closed"):
        engine.complete("Hi")


def test_streams_that_outlast_the_programs_patience_leave_no_engine_running() -> None:
    engine = Gated()
    host = Host(mounted(served(engine, first_byte_wait_s=0.0)), grace_s=1)
    try:
        with asking(host.url) as answer:
            lines = answer.iter_lines()
            next(lines)
            host.end()
        assert engine.was_left.is_set()
    finally:
        host.end()
