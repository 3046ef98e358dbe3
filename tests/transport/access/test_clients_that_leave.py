"""A client that leaves while its request waits, or while it is answered.

The engine is never started for nobody, and no slot is lost.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, serving, within
from grpc_client import HI, calling
from live_server import Served, served, wait_for
from websocket_client import START, speaking

from torvyn.engine import ChoiceStep, Engine, Request, Step
from torvyn.transport.access.admission import Admission

Leave = Callable[[], object]
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}


class Doorkeeper(Engine):
    """Counts who comes and who goes. Says a token at once if it should, and then nothing."""

    name = "doorkeeper"

    def __init__(self) -> None:
        super().__init__()
        self.begun = self.ended = 0
        self.speaks = False
        self.has_closed = threading.Event()

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.begun += 1
        try:
            if self.speaks:
                yield Step((ChoiceStep(0, text="x"),))
            while not self.has_closed.is_set():
                await asyncio.sleep(0.001)
        finally:
            self.ended += 1


async def until_free(admission: Admission) -> None:
    while not admission.free:
        await asyncio.sleep(0.001)


def close(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def http(path: str, body: Any, leave: Callable[[socket.socket], None], kind: str = "*/*") -> Any:
    def ask(server: Served, stack: ExitStack) -> Leave:
        data = json.dumps(body).encode()
        sock = stack.enter_context(server.connect())
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {kind}\r\n"
        sock.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return lambda: leave(sock)

    return ask


def websocket(server: Served, stack: ExitStack) -> Leave:
    client = stack.enter_context(speaking(server.url))
    client.say(START)
    return client.socket.close


def grpc(server: Served, stack: ExitStack) -> Leave:
    call = stack.enter_context(calling(server)).Generate(HI)
    return call.cancel


TRANSPORTS: dict[str, Callable[[Served, ExitStack], Leave]] = {
    "sse": http("/v1/streams", PROMPT_BODY, close),
    "sse-reset": http("/v1/streams", PROMPT_BODY, reset),
    "lines": http("/v1/streams", PROMPT_BODY, close, "application/x-ndjson"),
    "chat": http("/v1/chat/completions", {**CHAT, "stream": True}, reset),
    "whole": http("/v1/chat/completions", CHAT, close),
    "whole-reset": http("/v1/chat/completions", CHAT, reset),
    "session": http("/v1/streams", {**PROMPT_BODY, "stateful": True}, close),
    "websocket": websocket,
    "grpc": grpc,
}
SLOTS = len(TRANSPORTS)


@pytest.fixture
def doorkeeper() -> Iterator[Doorkeeper]:
    engine = Doorkeeper()
    yield engine
    engine.has_closed.set()


@pytest.mark.promise("inference.client-leaves")
def test_a_client_that_leaves_the_queue_gets_no_slot_and_no_engine(doorkeeper) -> None:
    with (
        served(doorkeeper, max_streams=SLOTS, admission_wait_s=60.0) as server,
        ExitStack() as stack,
    ):
        admission = server.application.admission
        busy = [TRANSPORTS["chat"](server, stack) for _ in range(SLOTS)]
        wait_for(lambda: doorkeeper.begun == SLOTS)
        waiting = [ask(server, stack) for ask in TRANSPORTS.values()]
        wait_for(lambda: admission.waiting == SLOTS)

        for left, leave in enumerate(waiting, start=1):
            leave()
            wait_for(lambda: admission.waiting == SLOTS - left)
        for leave in busy:
            leave()

        wait_for(lambda: admission.free == SLOTS)
        assert (doorkeeper.begun, doorkeeper.ended) == (SLOTS, SLOTS)
        assert not server.application.sessions


@pytest.mark.promise("inference.client-leaves")
@pytest.mark.parametrize("speaks", [False, True], ids=["before the first text", "after it"])
@pytest.mark.parametrize("name", [name for name in TRANSPORTS if name != "session"])
def test_a_client_that_leaves_an_answer_gives_its_slot_back(doorkeeper, name, speaks) -> None:
    doorkeeper.speaks = speaks
    with served(doorkeeper, max_streams=2, heartbeat_s=0.05) as server, ExitStack() as stack:
        leave = TRANSPORTS[name](server, stack)
        wait_for(lambda: doorkeeper.begun)
        leave()

        wait_for(lambda: server.application.admission.free == 2)
        assert (doorkeeper.begun, doorkeeper.ended) == (1, 1)


@pytest.mark.parametrize("body", [PROMPT_BODY, CHAT, {**PROMPT_BODY, "stateful": True}])
@pytest.mark.parametrize("is_free", [False, True])
async def test_no_slot_is_lost_in_whatever_turn_the_client_leaves(body, is_free) -> None:
    for turns in range(20):
        engine = Doorkeeper()
        application = serving(engine, max_streams=1, admission_wait_s=60.0)
        admission = application.admission
        if not is_free:
            await admission.acquire("normal")
        path = "/v1/streams" if "prompt" in body else "/v1/chat/completions"
        client = Client(application, path, body)
        for turn in range(20):
            if turn == turns:
                client.leave()
                if not is_free:
                    admission.release()
            await asyncio.sleep(0)
        engine.has_closed.set()
        await within(client.task)
        await within(application.drain(0.5))

        # The generation of a stateful stream is a task of its own.
        await within(until_free(admission))
        assert admission.waiting == 0, turns
        assert engine.begun == engine.ended, turns
