"""Connections to an upstream: kept while they are of use, closed at once when they are not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from observed_engines import is_settled, nothing_runs, wait_until

from fake_upstream import HELLO, running, says
from torvyn.engine.openai.engine import OpenAI
from torvyn.errors import MissingError


def engine_at(upstream, **options):
    return OpenAI(base_url=upstream.url, model="m", **options)


def test_connections_are_kept_for_the_next_request():
    with running(says(*HELLO)) as upstream, engine_at(upstream) as engine:
        for _ in range(5):
            engine.complete("x")
            # The end of the body may come a moment after the answer's.
            wait_until(lambda: is_settled(engine))

        assert (upstream.connections, len(upstream.exchanges)) == (1, 5)


def test_a_kept_connection_that_the_upstream_has_closed_is_replaced():
    async def once(exchange):
        await says(*HELLO)(exchange)
        exchange.writer.close()

    with running(once) as upstream, engine_at(upstream, retries=0) as engine:
        for _ in range(3):
            assert engine.complete("x").text == "Hello"
            wait_until(lambda: upstream.open == 0)

    assert upstream.connections == 3


def test_nobody_waits_for_the_end_of_a_body_that_says_no_more():
    may_end = threading.Event()

    async def late(exchange):
        await exchange.begin()
        await exchange.chunk(*HELLO)
        await asyncio.to_thread(may_end.wait, 5)
        await exchange.end()

    with running(late) as upstream, engine_at(upstream) as engine:
        assert engine.complete("x").text == "Hello"
        may_end.set()
        wait_until(lambda: is_settled(engine))
        engine.complete("x")
        wait_until(lambda: is_settled(engine))

        assert (upstream.connections, len(upstream.exchanges)) == (1, 2)


def test_each_loop_has_connections_of_its_own_and_closes_them(recwarn):
    with running(says(*HELLO)) as upstream, engine_at(upstream) as engine:
        for _ in range(2):
            assert asyncio.run(engine.acomplete("x")).text == "Hello"
        wait_until(lambda: upstream.open == 0)

        assert upstream.connections == 2
    assert not [warning for warning in recwarn if "Unclosed" in str(warning.message)]


def test_an_engine_that_is_closed_in_a_coroutine_leaves_no_connection():
    async def ask(url):
        async with OpenAI(base_url=url, model="m") as engine:
            whole = await engine.acomplete("x")
        return whole.text, asyncio.all_tasks() - {asyncio.current_task()}

    with running(says(*HELLO)) as upstream:
        assert asyncio.run(ask(upstream.url)) == ("Hello", set())
        wait_until(lambda: upstream.open == 0)


async def _never_ends(exchange):
    await exchange.begin()
    await exchange.chunk(*HELLO[:2])
    await exchange.until_left()


@pytest.mark.parametrize("way", ["for", "async for", "abort", "stop string", "close"])
def test_when_nobody_wants_the_answer_its_connection_is_closed(way):
    with running(_never_ends) as upstream:
        engine = engine_at(upstream)
        generation = engine.generate("x", request_id="r", stop="el" if way == "stop string" else ())
        if way == "async for":
            asyncio.run(_leave(generation, lambda: upstream.open == 0))
        elif way == "stop string":
            assert "".join(delta.text for delta in generation) == "H"
        else:
            for _ in generation:
                if way == "abort":
                    engine.abort("r")
                elif way == "close":
                    engine.close()
                else:
                    break
        wait_until(lambda: upstream.open == 0)
        wait_until(lambda: nothing_runs(engine))


async def _leave(generation, is_closed):
    async for _ in generation:
        break
    async with asyncio.timeout(5):
        while not is_closed():
            await asyncio.sleep(0.001)


def test_leaving_before_the_first_token_closes_the_connection_too():
    asked = threading.Event()

    async def silent(exchange):
        asked.set()
        await exchange.until_left()

    with running(silent) as upstream, engine_at(upstream) as engine:
        generation = engine.generate("x")
        threading.Thread(target=lambda: asked.wait(5) and generation.close()).start()

        assert [delta.finish_reason for delta in generation] == ["cancelled", None]
        wait_until(lambda: upstream.open == 0)


FORGETS = """
import sys, torvyn

def ask():
    try:
        engine = torvyn.engine.open("openai", base_url=sys.argv[1], model="m", retries=0)
        return engine.complete("x").text
    except torvyn.Unavailable as error:
        return error.code

print(ask())
"""


@pytest.mark.parametrize("is_up", [True, False])
def test_an_engine_that_nobody_closed_ends_quietly(is_up):
    with running(says(*HELLO)) as upstream:
        url = upstream.url if is_up else "http://127.0.0.1:1/v1"
        command = [sys.executable, "-c", FORGETS, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    said = "Hello\n" if is_up else "engine.upstream-down\n"
    assert (done.stdout, done.stderr) == (said, "")


def test_without_its_package_a_client_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    with pytest.raises(MissingError) as caught:
        OpenAI(base_url="http://x/v1", model="m", client="aiohttp")
    assert "aiohttp" in (caught.value.hint or "")


def test_the_native_client_needs_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    with (
        running(says(*HELLO)) as upstream,
        OpenAI(base_url=upstream.url, model="m", client="native") as engine,
    ):
        assert engine.complete("x").text == "Hello"
