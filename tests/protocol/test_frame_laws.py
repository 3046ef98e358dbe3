"""decode(encode(x)) == x: for any text, in every dialect and framing, however it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.errors import InvalidInput
from torvyn.protocol import (
    Decoder,
    DeltaFrame,
    Encoder,
    EndFrame,
    ErrorFrame,
    Finish,
    Frame,
    MetaFrame,
    StartFrame,
    ToolCall,
    Usage,
)
from torvyn.protocol.frames import FILTER_SIDES

WIRES = [
    ("torvyn", "sse"),
    ("torvyn", "lines"),
    ("torvyn", "json"),
    ("openai-chat", "sse"),
    ("openai-chat", "lines"),
    ("openai-completions", "sse"),
    ("openai-completions", "lines"),
]
NASTY = st.sampled_from(
    [
        '"',
        "\\",
        "\\n",
        "\n",
        "\r",
        "\0",
        "\x1f",
        "\x7f",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\U0001f468\u200d\U0001f469",
        "data: ",
        "[DONE]",
        "\\ud83d",
        "</script>",
        "é",
        "\ufffd",
    ]
)
TEXTS = st.lists(st.text() | NASTY, min_size=1).map("".join).filter(bool)
CALLS = st.builds(
    ToolCall, st.integers(0, 3), st.none() | TEXTS, st.none() | TEXTS, st.text() | TEXTS
)
COUNTS = st.integers(0, 2**40)
SIDES = st.sampled_from([None, *FILTER_SIDES])


@st.composite
def answers(draw: st.DrawFn) -> list[Frame]:
    """A whole answer of two choices that every dialect can carry."""
    frames: list[Frame] = [StartFrame(draw(TEXTS), draw(TEXTS), draw(COUNTS))]
    for seq in range(1, draw(st.integers(1, 6))):
        index, kind = (
            draw(st.integers(0, 1)),
            draw(st.sampled_from(["text", "reasoning", "tool_call"])),
        )
        if kind == "tool_call":
            frames.append(DeltaFrame(seq, index, "tool_call", call=draw(CALLS)))
        else:
            frames.append(DeltaFrame(seq, index, kind, draw(TEXTS)))
    reasons = st.sampled_from(["stop", "length", "content_filter", "tool_calls"])
    finish = tuple(
        Finish(index, draw(reasons), draw(st.none() | TEXTS), side=draw(SIDES)) for index in (0, 1)
    )
    frames.append(EndFrame(len(frames), finish, Usage(*(draw(COUNTS) for _ in range(4)))))
    return frames


def carried(frames: list[Frame], dialect: Any, framing: Any, size: int = 1 << 30) -> list[Frame]:
    """The frames after a journey in pieces of `size` bytes."""
    assert isinstance(frames[0], StartFrame)
    encoder = Encoder.of(frames[0], dialect, framing, choices=2, include_usage=True)
    decoder = Decoder(dialect, framing, choices=2)
    sent = [encoder.encode(frame) for frame in frames]
    if framing != "json":
        whole = b"".join(sent)
        sent = [whole[at : at + size] for at in range(0, len(whole), size)]
    return [frame for piece in sent for frame in decoder.put(piece)] + decoder.finish()


@pytest.mark.promise("inference.escaping", "inference.nested-json")
@pytest.mark.parametrize(("dialect", "framing"), WIRES)
@given(frames=answers(), size=st.sampled_from([1, 2, 3, 50, 1 << 30]))
def test_what_is_encoded_is_decoded(
    dialect: str, framing: str, frames: list[Frame], size: int
) -> None:
    assert carried(frames, dialect, framing, size) == frames


@pytest.mark.parametrize("framing", ["sse", "lines", "json"])
@given(data=st.dictionaries(st.text(), st.text() | NASTY | st.integers()), text=TEXTS)
def test_our_own_dialect_carries_every_kind_of_frame(
    framing: str, data: dict[str, Any], text: str
) -> None:
    frames = [
        StartFrame("a", "b", 1),
        MetaFrame(1, data),
        DeltaFrame(2, 1, "text", text, logprobs=({"token": text, "logprob": -1.5},)),
        ErrorFrame(3, "a.b", text, retryable=True),
        EndFrame(
            4, (Finish(0, "error", None, "client"), Finish(1, "cancelled")), None, {"ttft_s": 1.5}
        ),
    ]

    assert carried(frames, "torvyn", framing) == frames


@pytest.mark.parametrize(("dialect", "framing"), WIRES)
def test_an_error_and_a_cancellation_are_carried(dialect: str, framing: str) -> None:
    begun: list[Frame] = [
        StartFrame("a", "b", 1),
        DeltaFrame(1, 0, "text", "x"),
        DeltaFrame(2, 1, "text", "y"),
    ]
    error = ErrorFrame(3, "a.b", "gone", retryable=True)
    failed = [*begun, error, EndFrame(4, (Finish(0, "error"), Finish(1, "error")))]
    cancelled = [*begun, EndFrame(3, (Finish(0, "stop"), Finish(1, "cancelled")))]

    assert carried(failed, dialect, framing) == failed
    assert carried(cancelled, dialect, framing) == cancelled


@pytest.mark.parametrize(("dialect", "framing"), [wire for wire in WIRES if wire[1] != "json"])
def test_an_answer_that_was_cut_is_never_taken_for_whole(dialect: Any, framing: Any) -> None:
    encoder = Encoder.of(StartFrame("a", "b", 1), dialect, framing)
    decoder = Decoder(dialect, framing)

    decoder.put(encoder.start() + encoder.text("a") + encoder.text("b")[:-3])
    with pytest.raises(InvalidInput) as caught:
        decoder.finish()
    assert caught.value.code == "protocol.stream-cut"


def texts_of(frames: list[Frame]) -> str:
    return "".join(frame.text for frame in frames if isinstance(frame, DeltaFrame))


@given(st.text(st.characters(), min_size=1))
def test_halves_of_pairs_may_be_cut_anywhere(text: str) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    parts = [pair.decode("utf-16-le", "surrogatepass") for pair in pairs]
    encoder = Encoder.of(StartFrame("a", "b", 1), "torvyn")
    decoder = Decoder("torvyn")

    wire = b"".join(encoder.text(part) for part in parts) + encoder.end(
        [(0, "stop", None, None, None)]
    )
    assert texts_of(decoder.put(wire)) == units.decode("utf-16-le", "replace")


def test_types_and_members_of_later_versions_are_passed_over() -> None:
    decoder = Decoder("torvyn", "lines")

    later = b'{"type":"picture","seq":1}\n{"type":"meta","seq":2,"data":{},"new":1}\n'
    assert decoder.put(later) == [MetaFrame(2, {})]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"7", b'{"type":"delta"}', b'{"type":"end","seq":1,"finish":3}', b"\xff"]
)
def test_what_is_no_frame_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        Decoder("torvyn", "lines").put(line + b"\n")
    assert caught.value.code == "protocol.bad-frame"
