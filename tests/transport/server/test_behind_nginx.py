"""A server behind nginx, with the shipped configuration and with a plain one."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import missing
import pytest
from aiohttp import web
from asgi_client import Gated
from live_server import PATIENCE_S, Served, served, wait_for
from nginx import PLAIN, SHIPPED, Ports, in_front, needs_nginx

pytestmark = needs_nginx
PROMPT_BODY = json.dumps({"prompt": "Hi"})
NAME = "chat.example"
READ_TIMEOUT = "proxy_read_timeout 60s;"


class Before:
    """nginx, the server behind it, and an engine in the test's hands."""

    def __init__(self, ports: Ports, server: Served, engine: Gated) -> None:
        self.ports, self.server, self.engine = ports, server, engine

    def say(self, *tokens: str | None) -> None:
        for token in tokens:
            self.server.loop.call_soon_threadsafe(self.engine.tokens.put_nowait, token)

    @contextmanager
    def asking(
        self, is_secure: bool = True, path: str = "/v1/streams", host: str = NAME, by: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        port = self.ports.tls if is_secure else self.ports.plain
        given: Any = {"timeout": PATIENCE_S, "source_address": (by, 0) if by else None}
        if is_secure:
            given["context"] = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        client = connection("127.0.0.1", port, **given)
        method, body = ("POST", PROMPT_BODY) if path == "/v1/streams" else ("GET", None)
        client.request(method, path, body, {"Host": host})
        answer = client.getresponse()
        try:
            yield answer
        finally:
            answer.close()
            client.close()


@contextmanager
def behind(folder: Path, site: str = SHIPPED, **settings: Any) -> Iterator[Before]:
    """Answers begin at once, so that a client has something to read."""
    engine = Gated()
    settings = {"hosts": (NAME,), "first_byte_wait_s": 0.0, **settings}
    with (
        served(engine, **settings) as server,
        in_front(server.port, folder, site) as ports,
    ):
        yield Before(ports, server, engine)


def texts(answer: Any) -> Iterator[str]:
    """The texts of deltas, each as soon as its line is there."""
    for line in answer:
        if line.startswith(b"data: ") and b'"delta"' in line:
            yield json.loads(line[6:])["text"]


@pytest.mark.promise("inference.buffering-proxies")
@pytest.mark.parametrize("site", [SHIPPED, PLAIN], ids=["shipped", "plain"])
def test_a_chunk_reaches_the_client_before_the_next_is_made(tmp_path: Path, site: str) -> None:
    with behind(tmp_path, site) as before, before.asking(site is SHIPPED) as answer:
        said = texts(answer)
        for number in range(20):
            # The engine waits for this token until the one before it was read here.
            before.say(f"token {number}")
            assert next(said) == f"token {number}"
        before.say(None)
        rest = answer.read()

    assert b'"type":"end"' in rest


@pytest.mark.promise("inference.buffering-proxies")
@missing.needs_program("curl")
def test_chunks_are_not_delayed_over_http_2_either(tmp_path: Path) -> None:
    with behind(tmp_path) as before:
        url = f"https://127.0.0.1:{before.ports.tls}/v1/streams"
        command = ["curl", "-skN", "--http2", "-m", "20", url, "-d", PROMPT_BODY]
        command += ["-H", f"Host: {NAME}", "-w", "HTTP %{http_version}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as curl:
            said = texts(curl.stdout)
            for number in range(20):
                before.say(f"token {number}")
                assert next(said) == f"token {number}"
            before.say(None)
            assert curl.stdout is not None
            rest = curl.stdout.read()

    assert rest.endswith(b"HTTP 2")


@pytest.mark.parametrize("is_early", [True, False], ids=["before a token", "after one"])
def test_a_client_that_leaves_ends_the_engine_behind_nginx(tmp_path: Path, is_early: bool) -> None:
    with behind(tmp_path) as before:
        with before.asking() as answer:
            wait_for(before.engine.has_begun.is_set)
            if not is_early:
                before.say("one")
                assert next(texts(answer)) == "one"
            assert not before.engine.was_left.is_set()
        assert wait_for(before.engine.was_left.is_set)


@pytest.mark.promise("inference.idle-proxies")
def test_heartbeats_keep_a_silent_stream_open_beyond_the_proxys_patience(tmp_path: Path) -> None:
    site = SHIPPED.replace(READ_TIMEOUT, "proxy_read_timeout 400ms;")
    with behind(tmp_path, site, heartbeat_s=0.1) as before, before.asking() as answer:
        beats = 0
        while beats < 10:  # a second, of which the proxy would wait for less than a half
            line = answer.readline()
            assert line, "nginx closed the stream"
            beats += line.startswith(b":")
        before.say("late", None)
        assert list(texts(answer)) == ["late"]


def test_without_heartbeats_the_proxy_would_give_up_and_the_engine_is_left(tmp_path: Path) -> None:
    site = SHIPPED.replace(READ_TIMEOUT, "proxy_read_timeout 400ms;")
    with behind(tmp_path, site, heartbeat_s=60.0) as before, before.asking() as answer:
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        assert wait_for(before.engine.was_left.is_set)


def test_a_name_that_is_not_served_is_refused_through_the_proxy_as_well(tmp_path: Path) -> None:
    with behind(tmp_path) as before, before.asking(host="evil.example") as answer:
        body = json.load(answer)

    assert (answer.status, body["error"]["code"]) == (421, "transport.host-refused")


def test_plain_http_leads_to_tls(tmp_path: Path) -> None:
    with behind(tmp_path) as before, before.asking(False, "/v1/models") as answer:
        assert answer.status == 301
        assert answer.headers["Location"] == "https://chat.example/v1/models"


@pytest.mark.parametrize(("by", "status"), [("127.0.0.1", 200), ("127.0.0.2", 403)])
def test_what_is_counted_is_shown_to_this_machine_alone(
    tmp_path: Path, by: str, status: int
) -> None:
    with behind(tmp_path) as before, before.asking(path="/metrics", by=by) as answer:
        assert answer.status == status


@contextmanager
def echoing_socket() -> Iterator[int]:
    """The port of a server that says back what it hears on a WebSocket."""

    async def echo(request: web.Request) -> web.WebSocketResponse:
        sock = web.WebSocketResponse()
        await sock.prepare(request)
        async for message in sock:
            await sock.send_str(f"{request.headers['Host']}: {message.data}")
        return sock

    async def start() -> tuple[web.AppRunner, int]:
        application = web.Application()
        application.router.add_get("/v1/ws", echo)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, runner.addresses[0][1]

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE_S)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


async def test_websockets_pass(tmp_path: Path) -> None:
    with echoing_socket() as port, in_front(port, tmp_path) as ports:
        url = f"wss://127.0.0.1:{ports.tls}/v1/ws"
        async with aiohttp.ClientSession() as session:
            headers = {"Host": NAME}
            async with session.ws_connect(url, ssl=False, headers=headers) as sock:
                await sock.send_str("one")
                assert await sock.receive_str(timeout=PATIENCE_S) == "chat.example: one"
                await sock.send_str("two")
                assert await sock.receive_str(timeout=PATIENCE_S) == "chat.example: two"
