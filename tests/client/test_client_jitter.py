"""The jitter buffer: all text, evenly, in whole characters, never later than the bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torvyn.client.jitter_buffer import TICK_S, JitterBuffer
from torvyn.client.paced_text import pace_text

BOUND_S = 0.12
TEXTS = st.text(st.sampled_from("ab \n\r\u0301👩\u200d👧🇩🇪é한\ud800"), max_size=40)
PIECES = st.lists(st.tuples(st.floats(0, 0.4), TEXTS), max_size=12)
Released = list[tuple[float, str]]


def played(pieces: list[tuple[float, str]]) -> tuple[Released, list[tuple[float, str]]]:
    """The released and the arrived texts with their times, on a simulated clock."""
    jitter, now_s, out, arrived = JitterBuffer(BOUND_S), 0.0, [], []
    for pause_s, text in pieces:
        until_s = now_s + pause_s
        out += _until(jitter, until_s)
        now_s = until_s
        jitter.put(text, now_s)
        arrived.append((now_s, text))
    jitter.finish()
    return out + _until(jitter, float("inf")), arrived


def _until(jitter: JitterBuffer, until_s: float) -> Released:
    out = []
    while (due_s := jitter.due_s) is not None and due_s <= until_s:
        text = jitter.take(due_s)
        assert text, "it was due, and nothing came"
        out.append((due_s, text))
    return out


@pytest.mark.promise("inference.jitter-buffer")
@given(PIECES)
@settings(max_examples=200, deadline=None)
def test_text_is_released_in_order_and_within_the_bound(pieces: list[tuple[float, str]]) -> None:
    released, arrived = played(pieces)

    assert "".join(text for _, text in released) == "".join(text for _, text in arrived)
    came = [at_s for at_s, text in arrived for _ in text]
    left = [at_s for at_s, text in released for _ in text]
    assert all(
        out - since <= BOUND_S - TICK_S + 1e-9 for out, since in zip(left, came, strict=True)
    )


@pytest.mark.promise("inference.jitter-buffer")
def test_a_burst_is_spread_and_not_dumped() -> None:
    released, _ = played([(0.0, "x" * 60)])
    sizes = [len(text) for _, text in released]

    assert released[0][0] == 0.0
    assert max(sizes) <= 8
    assert released[-1][0] > BOUND_S / 2


def test_a_backlog_is_caught_up_with() -> None:
    released, arrived = played([(0.0, "x" * 1000), (0.0, "y" * 1000), (0.01, "z" * 1000)])

    assert released[-1][0] <= arrived[-1][0] + BOUND_S


@pytest.mark.parametrize("family", ["👩‍👩‍👧", "e\u0301\u0302", "🇩🇪", "\r\n", "각"])
def test_a_character_that_arrives_in_parts_is_released_whole(family: str) -> None:
    released, _ = played([(0.0, "ab"), *((0.01, part) for part in family), (0.01, "cd")])

    assert [text for _, text in released if family in text]


def test_a_character_is_not_waited_for_longer_than_the_bound() -> None:
    jitter = JitterBuffer(BOUND_S)
    jitter.put("e", 1.0)

    assert jitter.due_s == pytest.approx(1.0 + BOUND_S - TICK_S)
    assert jitter.take(1.0) == ""
    assert jitter.take(jitter.due_s or 0) == "e"


# On a loop


async def coming(*texts: str | Exception) -> AsyncGenerator[str, None]:
    for text in texts:
        await asyncio.sleep(0)
        if isinstance(text, Exception):
            raise text
        yield text


async def test_on_a_loop_the_text_is_the_same() -> None:
    texts = [text async for text in pace_text(coming("Hello, ", "👩‍", "👧", "!"), 0.02)]

    assert "".join(texts) == "Hello, 👩‍👧!"
    assert len(texts) > 1


async def test_an_error_is_raised_after_the_text_before_it() -> None:
    got = []
    with pytest.raises(ValueError, match="broke"):
        async for text in pace_text(coming("Hello", ValueError("broke")), 0.02):
            got.append(text)

    assert "".join(got) == "Hello"


async def test_leaving_the_loop_closes_the_source() -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncGenerator[str, None]:
        try:
            yield "Hello"
            await asyncio.Event().wait()
        finally:
            ended.set()

    texts = pace_text(endless(), 0.02)
    await anext(texts)
    await texts.aclose()

    assert ended.is_set()
