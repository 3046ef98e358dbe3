"""A request is asked again only while it may help and nothing of its answer has arrived."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from observed_engines import wait_until

from fake_upstream import HELLO, Exchange, running, says, status
from torvyn.engine.openai.engine import OpenAI
from torvyn.errors import TorvynError

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


@pytest.mark.parametrize("pause_s", [6, 3600])
def test_an_upstream_that_wants_to_be_left_alone_for_long_is_not_waited_for(pause_s):
    with opened(status(429, "slow down", f"Retry-After: {pause_s}"), retries=5) as (
        engine,
        upstream,
    ):
        with pytest.raises(TorvynError, match="slow down"):
            engine.complete("x")

        assert len(upstream.exchanges) == 1


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
