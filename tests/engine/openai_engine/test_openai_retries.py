"""A request is asked again only while it may help and nothing of its answer has arrived."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest
from observed_engines import wait_until

from coroutines import virtual_time
from fake_upstream import HELLO, Exchange, running, says, status
from torvyn.engine.openai.client import UpstreamClient, UpstreamResponse
from torvyn.engine.openai.engine import OpenAI
from torvyn.errors import DeadlineExceeded, TorvynError, Unavailable

BEGUN = HELLO[:3]


def cut(*pieces: bytes):
    """An answer of these chunks, after which the connection breaks."""

    async def reply(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(*pieces)
        exchange.reset()

    return reply


@contextmanager
def opened(*replies, **options):
    """An engine whose upstream replies so, and that upstream."""
    with running(*replies) as upstream, OpenAI(base_url=upstream.url, model="m", **options) as made:
        yield made, upstream


@pytest.mark.parametrize("first", [429, 500, 503])
def test_a_busy_upstream_is_asked_again(first):
    busy = status(first, "", "Retry-After: 0")
    with opened(busy, busy, says(*HELLO), retries=2) as (engine, upstream):
        assert engine.complete("x").text == "Hello"

        assert len(upstream.exchanges) == 3


async def _hangs_up(exchange):
    exchange.reset()


def test_a_connection_that_breaks_before_the_answer_is_tried_again():
    with opened(_hangs_up, says(*HELLO), retries=1) as (engine, _):
        assert engine.complete("x").text == "Hello"


@pytest.mark.parametrize("first", [cut(*BEGUN), cut(), status(400), status(401)])
def test_what_has_begun_or_cannot_help_is_never_asked_again(first):
    with opened(first, says(*HELLO), retries=5) as (engine, upstream):
        with pytest.raises(TorvynError):
            engine.complete("x")

        assert len(upstream.exchanges) == 1


@pytest.mark.parametrize("header", ["Retry-After: 9", "Retry-After: 3600", "retry-after-ms: 9000"])
def test_an_upstream_that_wants_to_be_left_alone_for_long_is_not_waited_for(header):
    with opened(status(429, "slow down", header), retries=5) as (engine, upstream):
        with pytest.raises(TorvynError, match="slow down"):
            engine.complete("x")

        assert len(upstream.exchanges) == 1


class Busy(UpstreamResponse):
    """A 429 that asks for a pause."""

    @property
    def headers(self):
        return {"retry-after": "2"}

    async def read(self, deadline_s):
        return b""

    def close(self):
        pass

    release = close


class BusyClient(UpstreamClient):
    """Takes a second for each response; notes when it was asked."""

    def __init__(self, upstream):
        super().__init__(upstream, 1.0)
        self.asked_s = []

    async def post(self, path, headers, body, deadline_s, direct=None):
        self.asked_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        return Busy(429, "text/plain")

    def close(self):
        pass

    async def aclose(self):
        pass


@virtual_time
async def test_no_retry_begins_so_late_that_clients_of_a_server_could_hear_no_status():
    engine = OpenAI(base_url="http://127.0.0.1:1/v1", model="m", retries=5)
    engine._client = client = BusyClient(engine._upstream)

    with pytest.raises(Unavailable):
        await engine.acomplete("x")
    # What was asked for, with jitter of up to 0.25 s and 0.5 s; the next is due after 9 s.
    assert client.asked_s == [0, pytest.approx(3.125, abs=0.125), pytest.approx(6.375, abs=0.375)]


@virtual_time
async def test_a_name_without_an_answer_counts_as_a_connection_and_is_asked_once():
    asked = []

    async def never(*about, **more):
        asked.append(about)
        await asyncio.Event().wait()

    loop = asyncio.get_running_loop()
    loop.getaddrinfo = never
    async with OpenAI(base_url="http://upstream.example/v1", model="m") as engine:
        with pytest.raises(DeadlineExceeded, match="did not accept a connection within 10 s"):
            await engine.acomplete("x")
    assert (len(asked), loop.time()) == (1, pytest.approx(10, abs=1))


def test_pauses_between_attempts_end_with_an_abort():
    busy = status(429, "", "Retry-After: 5")
    with running(busy) as upstream, OpenAI(base_url=upstream.url, model="m") as engine:
        generation = engine.generate("x")
        asked = threading.Thread(target=lambda: close_when_asked(upstream, generation))
        asked.start()

        assert [one.finish_reason for one in generation] == ["cancelled", None]
        asked.join()


def close_when_asked(upstream, generation):
    wait_until(lambda: bool(upstream.exchanges))
    generation.close()
