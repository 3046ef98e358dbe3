"""Pushed to a reader, an answer is the one that `async for` gives, in the same order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from flow_components import AsyncUpper, blocks
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample

import torvyn
from torvyn.engine import Delta, Scripted
from torvyn.engine.delta import Piece, as_delta
from torvyn.errors import TorvynError

TOKENS = st.lists(
    st.sampled_from(["a", " sec", "ret", " b", "\u4f60", "END", "", 0.0, ("reasoning", "hm")]),
    max_size=12,
)
OPTIONS = st.fixed_dictionaries(
    {}, optional={"stop": st.just(["END"]), "max_tokens": st.integers(0, 6), "n": st.integers(1, 2)}
)
FLOWS = {
    "bare": None,
    "replacing": lambda: torvyn.Flow(blocks("secret", action="replace")),
    "blocking": lambda: torvyn.Flow(blocks("secret")),
    "away": lambda: torvyn.Flow(AsyncUpper()),
}


class Gatherer:
    """Keeps what it is given; asks to send at every third, and waits a turn each time."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.flushes = 0

    def add(self, piece: Piece) -> bool:
        self.deltas.append(as_delta(piece))
        return len(self.deltas) % 3 == 0

    def flush(self) -> Any:
        self.flushes += 1
        return asyncio.sleep(0)


def told(deltas: list[Delta]) -> list[Any]:
    """What matters: texts joined by choice and kind, calls, ends, usage."""
    texts: dict[Any, str] = {}
    for delta in deltas:
        key = (delta.index, delta.kind)
        texts[key] = texts.get(key, "") + delta.text
    ends = [(d.index, d.finish_reason, d.matched_stop) for d in deltas if d.finish_reason]
    said = {key: text for key, text in texts.items() if text}
    return [said, sorted(ends), [d.usage for d in deltas if d.usage]]


def answered(engine: Scripted, through: Any, options: Any, *, is_pushed: bool) -> list[Any]:
    async def run() -> list[Any]:
        generation = engine.generate("x", through=through, **options)
        reader = Gatherer()
        error = None
        try:
            if is_pushed:
                await generation.push(reader)
            else:
                async for delta in generation:
                    reader.add(delta)
        except TorvynError as raised:
            error = raised.code
        return [error, *told(reader.deltas), generation.finish_reasons]

    return asyncio.run(run())


@pytest.mark.parametrize("flow", FLOWS)
@settings(deadline=None, max_examples=sample(15, full=60))
@given(tokens=TOKENS, options=OPTIONS, fail_at=st.none() | st.integers(0, 5))
def test_pushed_and_pulled_are_the_same(flow: str, tokens: Any, options: Any, fail_at: Any) -> None:
    engine = Scripted(tokens, fail_at=fail_at)
    ways = [
        answered(engine, FLOWS[flow], options, is_pushed=is_pushed) for is_pushed in (False, True)
    ]

    assert ways[0] == ways[1]


def test_the_loop_is_let_in_though_the_engine_never_waits() -> None:
    turns: list[Any] = []

    async def run() -> None:
        def turn() -> None:
            turns.append(asyncio.get_running_loop().call_soon(turn))

        turn()
        reader = Gatherer()
        reader.flush = lambda: None  # type: ignore[method-assign]
        await Scripted(["x"] * 2000).generate("x").push(reader)

    asyncio.run(run())
    assert len(turns) >= 2000 // 256


def test_stopped_while_the_reader_sends_the_engine_is_left_at_once() -> None:
    engine = Scripted(["x"] * 10)
    generation = engine.generate("x")
    reader = Gatherer()

    def flush() -> Any:
        generation.stop()
        return asyncio.sleep(0.01)

    reader.flush = flush  # type: ignore[method-assign]
    asyncio.run(generation.push(reader))

    assert engine.aborted
    assert generation.finish_reasons == ("stop",)
    assert len("".join(delta.text for delta in reader.deltas)) < 10
