"""What goes over the wire, byte by byte, in each dialect and framing."""

from __future__ import annotations

import pytest

from torvyn.protocol import (
    VERSION,
    DeltaFrame,
    Encoder,
    EndFrame,
    ErrorFrame,
    Finish,
    HeartbeatFrame,
    MetaFrame,
    StartFrame,
    ToolCall,
    Usage,
)

START = StartFrame("req-1", "chat", 1700000000)
USAGE = Usage(5, 2, cached_tokens=1, reasoning_tokens=0)
CHUNK = '{"id":"req-1","object":"chat.completion.chunk","created":1700000000,"model":"chat",'
BEGIN = f'{{"type":"start","version":{VERSION},"id":"req-1","flow":"chat","created":1700000000}}'
WORDS = '{"id":"req-1","object":"text_completion","created":1700000000,"model":"chat",'


def encoder(dialect: str, framing: str = "sse", **more: object) -> Encoder:
    return Encoder.of(START, dialect, framing, epoch="e7", **more)  # type: ignore[arg-type]


def event(seq: int | None, data: str) -> bytes:
    """Without a number: an event of OpenAI, or one that is not the last of its frame."""
    head = "" if seq is None else f"id: e7-{seq}\n"
    return f"{head}data: {data}\n\n".encode()


TORVYN = [
    (
        START,
        0,
        BEGIN,
    ),
    (
        DeltaFrame(1, 0, "text", "Hi"),
        1,
        '{"type":"delta","seq":1,"index":0,"kind":"text","text":"Hi"}',
    ),
    (
        DeltaFrame(2, 1, "reasoning", "hm", logprobs=({"token": "hm", "logprob": -0.5},)),
        2,
        '{"type":"delta","seq":2,"index":1,"kind":"reasoning","text":"hm",'
        '"logprobs":[{"token":"hm","logprob":-0.5}]}',
    ),
    (
        DeltaFrame(3, 0, "tool_call", call=ToolCall(0, "c1", "now", '{"a":')),
        3,
        '{"type":"delta","seq":3,"index":0,"kind":"tool_call",'
        '"call":{"index":0,"id":"c1","name":"now","arguments":"{\\"a\\":"}}',
    ),
    (MetaFrame(4, {"note": "ü"}), 4, '{"type":"meta","seq":4,"data":{"note":"ü"}}'),
    (
        ErrorFrame(5, "engine.down", "gone", retryable=True),
        5,
        '{"type":"error","seq":5,"code":"engine.down","message":"gone","retryable":true}',
    ),
    (
        EndFrame(
            6, (Finish(0, "stop", "END", "client"), Finish(1, "error")), USAGE, {"ttft_s": 0.5}
        ),
        6,
        '{"type":"end","seq":6,"finish":[{"index":0,"reason":"stop","matched_stop":"END",'
        '"stopped_by":"client"},{"index":1,"reason":"error"}],"usage":{"prompt_tokens":5,'
        '"completion_tokens":2,"total_tokens":7,"cached_tokens":1,"reasoning_tokens":0},'
        '"timing":{"ttft_s":0.5}}',
    ),
    (
        EndFrame(7, (Finish(0, "content_filter", side="prompt"),)),
        7,
        '{"type":"end","seq":7,"finish":[{"index":0,"reason":"content_filter","side":"prompt"}]}',
    ),
]


@pytest.mark.promise("inference.frames")
@pytest.mark.parametrize(("frame", "seq", "data"), TORVYN)
def test_a_frame_has_these_bytes_in_every_framing(frame: object, seq: int, data: str) -> None:
    def bytes_of(framing: str) -> bytes:
        return encoder("torvyn", framing, choices=2).encode(frame)  # type: ignore[arg-type]

    assert bytes_of("sse") == event(seq, data)
    assert bytes_of("lines") == f"{data}\n".encode()
    assert bytes_of("json") == data.encode()


REST = '"logprobs":null,"finish_reason":null}],"usage":null}'
CHAT = [
    (DeltaFrame(1, 0, "text", "Hi"), '{"content":"Hi"}'),
    (DeltaFrame(2, 0, "reasoning", "hm"), '{"reasoning_content":"hm"}'),
    (
        DeltaFrame(3, 0, "tool_call", call=ToolCall(1, "c1", "now", "{}")),
        '{"tool_calls":[{"index":1,"id":"c1","type":"function",'
        '"function":{"name":"now","arguments":"{}"}}]}',
    ),
    (
        DeltaFrame(4, 0, "tool_call", call=ToolCall(1, arguments='{"')),
        '{"tool_calls":[{"index":1,"function":{"arguments":"{\\""}}]}',
    ),
]


@pytest.mark.parametrize(("delta", "data"), CHAT)
def test_a_delta_of_chat_has_these_bytes(delta: DeltaFrame, data: str) -> None:
    wire = encoder("openai-chat", include_usage=True)
    role = f'{CHUNK}"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},{REST}'

    assert wire.start() == event(None, role)
    chunk = f'{CHUNK}"choices":[{{"index":0,"delta":{data},{REST}'
    assert wire.encode(delta) == event(None, chunk)


@pytest.mark.promise("inference.final-frame")
def test_the_end_of_chat_has_these_bytes() -> None:
    wire = encoder("openai-chat", include_usage=True)
    wire.start()
    finish = '{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":"END"}'
    usage = (
        '{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":'
        '{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":0}}'
    )

    assert wire.encode(EndFrame(4, (Finish(0, "stop", "END"),), USAGE)) == (
        event(None, f'{CHUNK}"choices":[{finish}],"usage":null}}')
        + event(None, f'{CHUNK}"choices":[],"usage":{usage}}}')
        + event(None, "[DONE]")
    )


def test_completions_have_no_role_and_keep_text_beside_the_index() -> None:
    wire = encoder("openai-completions", "lines")

    assert wire.start() == b""
    assert (
        wire.text("Hi")
        == (
            f'{WORDS}"choices":[{{"index":0,"text":"Hi","logprobs":null,"finish_reason":null}}]}}\n'
        ).encode()
    )
    assert (
        wire.encode(EndFrame(2, (Finish(0, "length"),), USAGE))
        == (
            f'{WORDS}"choices":[{{"index":0,"text":"","logprobs":null,"finish_reason":"length"}}]}}\n'
        ).encode()
    )


def test_usage_is_sent_only_when_it_was_asked_for() -> None:
    end = EndFrame(1, (Finish(0, "stop"),), USAGE)

    assert b"usage" not in encoder("openai-chat").encode(end)
    assert b'"choices":[],"usage":{' in encoder("openai-chat", include_usage=True).encode(end)


def test_each_choice_gets_its_role_before_its_first_delta() -> None:
    wire = encoder("openai-chat", choices=2)

    first, second, third = wire.text("a", 1), wire.text("b", 0), wire.text("c", 1)
    assert first.index(b'"index":1,"delta":{"role"') < first.index(b'"content":"a"')
    assert second.index(b'"index":0,"delta":{"role"') < second.index(b'"content":"b"')
    assert b"role" not in third


def test_an_error_ends_a_chat_answer_with_done_and_nothing_else() -> None:
    wire = encoder("openai-chat")
    error = '{"error":{"message":"gone","type":"server_error","param":null,"code":"x.y"}}'

    assert wire.encode(ErrorFrame(1, "x.y", "gone", retryable=True)) == event(None, error)
    assert wire.encode(EndFrame(2, (Finish(0, "error"),), USAGE)) == event(None, "[DONE]")


def test_a_cancelled_chat_answer_is_told_as_an_error() -> None:
    error = (
        '{"error":{"message":"the answer was cancelled","type":"cancelled","param":null,'
        '"code":"cancelled"}}'
    )

    ended = encoder("openai-chat").encode(EndFrame(1, (Finish(0, "cancelled"),)))
    assert ended == event(None, error) + event(None, "[DONE]")


@pytest.mark.promise("inference.heartbeats")
def test_a_heartbeat_on_an_event_stream_is_one_line() -> None:
    assert encoder("torvyn").encode(HeartbeatFrame()) == b": hb\n"
    assert encoder("openai-chat").heartbeat() == b": hb\n"
    assert encoder("torvyn", "lines").heartbeat() == b'{"type":"heartbeat"}\n'
    assert encoder("openai-chat", "lines").heartbeat() == b"\n"


def test_a_stream_of_a_socket_has_its_name_in_every_frame() -> None:
    wire = encoder("torvyn", "json", stream_id="s1")

    frames = [wire.start(), wire.text("a"), wire.heartbeat(), wire.meta("{}")]
    assert all(frame.startswith(b'{"stream_id":"s1","type":"') for frame in frames)


def test_frames_are_numbered_from_one_and_over_all_choices() -> None:
    wire = encoder("torvyn", choices=2)

    wire.start()
    wire.text("a", 1)
    assert wire.seq == 1
    wire.error("a.b", "c")
    assert wire.text("b", 0).startswith(b"id: e7-3\n")


@pytest.mark.parametrize(
    "more",
    [
        {"dialect": "morse"},
        {"framing": "smoke"},
        {"epoch": "a-b"},
        {"epoch": ""},
        {"choices": 0},
        {"dialect": "openai-chat", "framing": "json"},
    ],
)
def test_an_encoder_that_makes_no_sense_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Encoder.of(START, **{"dialect": "torvyn", **more})  # type: ignore[arg-type]


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="choice 1 is out of range: the answer has 1"):
        encoder("torvyn").text("a", 1)
    with pytest.raises(ValueError, match="choice 3"):
        encoder("torvyn").encode(EndFrame(1, (Finish(3, "stop"),)))


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands() -> None:
    half = "a\ud83d"
    wire = Encoder("torvyn", "lines", id=half, flow=half, created=1, epoch="e")
    call = DeltaFrame(1, 0, "tool_call", call=ToolCall(0, half, half, half))
    end = EndFrame(4, (Finish(0, "stop", half, half),))

    frames = [wire.start(), wire.encode(call), wire.error(half, half), wire.encode(end)]
    assert [frame.count("a\ufffd".encode()) for frame in frames] == [2, 3, 2, 2]


@pytest.mark.promise("inference.escaping")
@pytest.mark.parametrize("dialect", ["torvyn", "openai-chat", "openai-completions"])
def test_no_line_of_a_frame_can_be_forged_by_its_text(dialect: str) -> None:
    wire = encoder(dialect)
    wire.start()

    frame = wire.text("a\n\ndata: [DONE]\r\n\r\nid: 9\u2028\u2029\x85\x0b\x0c\x1c\x1e").decode()
    id = ["id: e"] if dialect == "torvyn" else []
    assert [line[:5] for line in frame.splitlines()] == [*id, "data:", ""]


def test_chunks_of_openai_say_what_was_filtered() -> None:
    end = EndFrame(1, (Finish(0, "content_filter", side="completion"),))

    assert b'"finish_reason":"content_filter","content_filter":{"side":"completion"}' in (
        encoder("openai-chat").encode(end)
    )
