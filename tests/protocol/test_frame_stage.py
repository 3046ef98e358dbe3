"""The last stage of a flow: one call turns an engine's step into frames."""

from __future__ import annotations

from typing import Any

import pytest

import torvyn
from torvyn.protocol import Decoder, DeltaFrame, Encoder, Frames, StartFrame, ToolCall

START = StartFrame("req-1", "chat", 1700000000)


class PythonFrames(Frames):
    """A subclass runs as a Python stage."""


STAGES = [Frames, PythonFrames]


def fed(stage: Frames, *items: Any) -> bytes:
    flow = torvyn.Flow(stage)
    out = flow.feed(list(items)) + flow.finish()
    return b"".join(bytes(element.data) for element in out)


def encoder(dialect: Any = "torvyn", **more: Any) -> Encoder:
    return Encoder.of(START, dialect, "sse", epoch="e", **more)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dialect", ["torvyn", "openai-chat", "openai-completions"])
def test_elements_leave_as_the_frames_that_the_encoder_makes(
    stage: type[Frames], dialect: str
) -> None:
    other = encoder(dialect)

    assert fed(stage(encoder(dialect)), "Hi", 'a"b\n', "") == b"".join(
        [other.text("Hi"), other.text('a"b\n'), other.text("")]
    )


@pytest.mark.parametrize("stage", STAGES)
def test_attributes_of_an_element_are_honoured(stage: type[Frames]) -> None:
    call = ToolCall(0, "c", "now", "{}")
    odds = ({"token": "a", "logprob": -1.0},)
    items = [
        torvyn.Output("hm", attributes={"kind": "reasoning"}),
        torvyn.Output("", attributes={"kind": "tool_call", "call": call}),
        torvyn.Output("a", attributes={"logprobs": odds, "token_ids": (1,)}),
    ]

    assert Decoder("torvyn").put(fed(stage(encoder()), *items)) == [
        DeltaFrame(1, 0, "reasoning", "hm"),
        DeltaFrame(2, 0, "tool_call", call=call),
        DeltaFrame(3, 0, "text", "a", logprobs=odds),
    ]


def test_the_flows_of_several_choices_share_their_numbers() -> None:
    shared = encoder(choices=2)
    flows = [torvyn.Flow(Frames(shared, index)) for index in (0, 1)]

    out = flows[1].feed("b") + flows[0].feed("a") + flows[1].feed("c")
    frames = Decoder("torvyn").put(b"".join(bytes(element.data) for element in out))
    assert frames == [
        DeltaFrame(1, 1, text="b"),
        DeltaFrame(2, 0, text="a"),
        DeltaFrame(3, 1, text="c"),
    ]
    assert out[0].content_type == "text/event-stream"


def test_a_guard_and_an_aggregator_may_stand_before_it() -> None:
    guard = torvyn.filter(lambda element: element.text != "bad")
    flow = torvyn.Flow(guard, Frames(encoder()))

    out = flow.feed(["good", "bad", "fine"])
    frames = Decoder("torvyn").put(b"".join(bytes(element.data) for element in out))
    assert frames == [DeltaFrame(1, text="good"), DeltaFrame(2, text="fine")]


def test_bytes_that_are_no_text_fail_the_flow() -> None:
    flow = torvyn.Flow(Frames(encoder()))

    with pytest.raises(torvyn.InvalidInput):
        flow.feed(b"\xff")


def test_a_choice_that_the_answer_has_not_is_refused() -> None:
    with pytest.raises(Exception, match="choice 4"):
        torvyn.Flow(Frames(encoder(), 4)).feed("a")
