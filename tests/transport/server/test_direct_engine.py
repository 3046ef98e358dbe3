"""Text of an engine in Python on the direct path: guard, frame and outbox in native code.

Each answer is given twice, on the direct path and on the ordinary one: nothing that a client or an
operator can see may differ.
"""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_server import wait_for
from told_answers import (
    FAILURE,
    GUARDS,
    PAUSE,
    Played,
    frames_of,
    left,
    on_both_paths,
    playing,
    text,
    words,
)

from torvyn.engine import ChoiceStep, Step
from torvyn.protocol.frames import ToolCall, Usage

__all__ = ["left"]

TEXTS = ("One ", "two ", "ba", "d ", "worse", ", é", "👩‍👧 ", "bad", "")
PARTS: dict[str, Step | None] = {
    "pause": PAUSE,
    "reasoning": Step((ChoiceStep(text="Hm.", kind="reasoning"),)),
    "call": Step((ChoiceStep(call=ToolCall(0, "c", "f", "{}")),)),
    "bytes": Step((ChoiceStep(data="ö".encode()[:1]), ChoiceStep(data="ö".encode()[1:]))),
    "half": text("\ud83d"),
    "usage": Step((), Usage(3, 4)),
    "two": Step((ChoiceStep(text="a"), ChoiceStep(text="b"))),
    "many": Step((ChoiceStep(text="several tokens ", tokens=3),)),
}
ENDS: dict[str, Sequence[Any]] = {
    "stop": (Step((ChoiceStep(tokens=0, finish_reason="stop"),)),),
    "length": (Step((ChoiceStep(text="end", finish_reason="length"),)),),
    "no reason": (),
    "error": (FAILURE,),
    "other choice": (Step((ChoiceStep(text="x", index=3),)),),
}
step = st.one_of(
    st.sampled_from(TEXTS).map(text), st.sampled_from(TEXTS).map(text), st.sampled_from([*PARTS])
)


@settings(max_examples=100)
@given(
    parts=st.lists(step, max_size=24),
    end=st.sampled_from([*ENDS]),
    guard=st.sampled_from([*GUARDS]),
    body=st.sampled_from([{}, {"stop": "wo"}, {"max_tokens": 3}, {"n": 1, "logprobs": True}]),
)
def test_nobody_can_tell_which_path_a_text_took(
    parts: list[Step | str], end: str, guard: str, body: dict[str, Any]
) -> None:
    script = [PARTS[part] if isinstance(part, str) else part for part in parts]
    with pytest.MonkeyPatch.context() as patch:
        serve = lambda: playing([*script, *ENDS[end]], guard)  # noqa: E731
        direct, ordinary = on_both_paths(patch, serve, guard, **body)

    assert direct == ordinary


@pytest.mark.parametrize("guard", ["none", "replace"])
@pytest.mark.parametrize("is_paced", [True, False])
def test_text_takes_the_direct_path(guard: str, is_paced: bool, left: list[Step | None]) -> None:
    with playing(words(100, is_paced), guard) as server:
        frames = frames_of(server)

    assert "".join(frame.get("text", "") for frame in frames).split()[-1] == "word99"
    assert frames[-1]["usage"]["completion_tokens"] == 100
    assert len(left) <= 2


def test_texts_that_are_ready_together_are_sent_together() -> None:
    with playing([text("x ")] * 100, chunk_tokens=16) as server:
        frames = frames_of(server)

    sizes = [len(frame["text"]) // 2 for frame in frames if frame["type"] == "delta"]
    assert (sizes[0], max(sizes), sum(sizes)) == (1, 16, 100)


def test_a_limit_of_tokens_ends_the_direct_path_in_time(left: list[Step | None]) -> None:
    with playing(words(100)) as server:
        frames = frames_of(server, max_tokens=50)

    assert frames[-1]["usage"]["completion_tokens"] == 50
    assert frames[-1]["finish"][0]["reason"] == "length"
    assert len(left) <= 3


class Counted:
    """Steps whose `__anext__` is a coroutine, not that of a generator."""

    def __init__(self) -> None:
        self.given = 0

    def __aiter__(self) -> Counted:
        return self

    async def __anext__(self) -> Step:
        await asyncio.sleep(0)
        self.given += 1
        if self.given > 100:
            raise StopAsyncIteration
        return text(f"{self.given} ")


def test_steps_may_come_from_any_async_iterator(
    monkeypatch: pytest.MonkeyPatch, left: list[Step | None]
) -> None:
    monkeypatch.setattr(Played, "steps", lambda self, request: Counted())
    with playing([], "replace") as server:
        frames = frames_of(server)

    assert frames[-2]["text"].endswith("100 ")
    assert len(left) <= 2


def test_an_engine_that_never_waits_does_not_hold_up_others() -> None:
    script = [text("#")] * 200_000
    with playing(script) as server, server.ask(b'{"prompt": "x"}') as busy:
        wait_for(lambda: b"#" in busy.recv(65536))
        assert frames_of(server, max_tokens=1)[-1]["usage"]["completion_tokens"] == 1


def test_a_slow_client_gets_everything_and_slows_the_engine() -> None:
    script = [text("#" * 500)] * 2000
    with (
        playing(script, "replace") as server,
        server.ask(b'{"prompt": "x"}', receive_bytes=4096) as sock,
    ):
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        got = answer.read()

    assert (got.count(b"#"), b'"completion_tokens":2000' in got) == (2000 * 500, True)


def test_a_client_that_leaves_stops_the_engine() -> None:
    with playing([text("word "), PAUSE] * 1_000_000, "replace") as server:
        with server.ask(b'{"prompt": "x"}') as sock:
            wait_for(lambda: b"word" in sock.recv(65536))
        wait_for(lambda: not server.application.running.calls)
