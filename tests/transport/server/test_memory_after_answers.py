"""An answer is freed when it ends, without waiting for the garbage collector.

An answer holds flows, and a flow holds descriptors: a busy server would run out of them.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Endless, serving
from websocket_client import START, Socket

from torvyn.engine import Scripted
from torvyn.engine.generation import Generation
from torvyn.transport.call import Call

KEPT = (Call, Generation)
WHOLE = {"messages": [{"role": "user", "content": "Hi"}]}


def alive() -> list[Any]:
    # By `type`: `isinstance` raises for weak references to what has gone.
    return [held for held in gc.get_objects() if issubclass(type(held), KEPT)]


@contextmanager
def without_collector() -> Iterator[Callable[[], list[Any]]]:
    """Yields what was made since and is alive. Answers of other tests may still be held, by a
    server in another thread or by the report of a failure."""
    gc.collect()
    gc.disable()
    before = alive()
    known = {id(held) for held in before}
    try:
        yield lambda: [held for held in alive() if id(held) not in known]
    finally:
        gc.enable()
        # Until here, so that nothing new has an address of what was there before.
        before.clear()


async def ended() -> None:
    """Tasks that were cancelled have gone too."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/streams", PROMPT_BODY), ("/v1/chat/completions", WHOLE)],
)
async def test_an_answer_that_was_read_leaves_nothing(path: str, body: Any) -> None:
    application = serving(Scripted("one two three", delay=0.001))
    with without_collector() as left:
        await Client(application, path, body)
        await ended()

        assert left() == []


async def test_an_answer_whose_client_left_leaves_nothing() -> None:
    application = serving(Scripted("one two three", delay=60))
    with without_collector() as left:
        client = Client(application, body=PROMPT_BODY)
        await client.until(1)
        client.leave()
        await client
        await ended()

        assert left() == []


async def test_an_answer_that_was_stopped_on_a_socket_leaves_nothing() -> None:
    with without_collector() as left:
        async with Socket(serving(Endless())) as socket:
            socket.say(START)
            await socket.until_got("delta")
            socket.say(type="stop", stream_id="s")
            await socket.until_got("end")
        await ended()

        assert left() == []


async def test_an_answer_that_was_kept_leaves_nothing_when_it_is_forgotten() -> None:
    application = serving(Scripted("one two three", delay=0.001))
    with without_collector() as left:
        client = await Client(application, body={**PROMPT_BODY, "stateful": True})
        path = f"/v1/streams/{client.frames_start_id()}"
        await Client(application, path, method="DELETE")
        await ended()

        assert left() == []
