"""Upstreams that fail, are cut, send garbage or halves of characters."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream_streams import content, of, put, said

from torvyn.errors import InvalidInput
from torvyn.protocol import DONE, ChunkDecoder, DeltaFrame, ErrorFrame


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        ({"error": {"message": "m", "code": "bad_key"}}, ErrorFrame(1, "bad_key", "m")),
        ({"error": "model not found"}, ErrorFrame(1, "error", "model not found")),
        (
            {"object": "error", "message": "m", "type": "BadRequestError", "code": 400},
            ErrorFrame(1, "400", "m"),
        ),
    ],
)
def test_an_error_is_told_in_any_form(chunk: Any, error: ErrorFrame) -> None:
    assert put(chunk) == [error]


@pytest.mark.parametrize(
    ("error", "status", "is_retryable"),
    [
        ({"type": "server_error", "code": None}, 500, True),
        ({"code": 429}, 429, True),
        ({"code": "503"}, 503, True),
        ({"code": "rate_limit_exceeded", "type": "tokens"}, 429, True),
        ({"code": "x", "type": "overloaded_error"}, 529, True),
        ({"code": "insufficient_quota", "type": "insufficient_quota"}, 402, False),
        ({"code": "context_length_exceeded", "type": "server_error"}, 400, False),
        ({"type": "invalid_request_error"}, 400, False),
        ({"code": "x", "status_code": 504}, 504, True),
        ({"code": "3000", "status": "x"}, None, False),
        ({"code": True, "type": ["x"], "status": 200, "status_code": 1e3}, None, False),
    ],
)
def test_an_error_names_a_status_in_any_way(error: Any, status: Any, is_retryable: bool) -> None:
    (frame,) = put({"error": {"message": "m", **error}})

    assert (frame.status, frame.retryable) == (status, is_retryable)


def test_an_error_event_is_an_error_whatever_it_holds() -> None:
    items = ChunkDecoder().put(b"event: error\ndata: overloaded\n\n")

    assert items == [ErrorFrame(1, "error", "overloaded")]


def test_a_stream_that_fails_may_end_without_done() -> None:
    decoder = ChunkDecoder()

    decoder.put(b'data: {"error":{"message":"m"}}\n\n')
    assert decoder.finish() == [DONE]


def test_done_may_be_left_out_after_all_choices_have_finished() -> None:
    decoder = ChunkDecoder()

    decoder.put(b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
    assert decoder.finish() == [DONE]
    assert decoder.finish() == []


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b": ping\n\n",
        b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
        b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [D',
    ],
)
def test_a_stream_that_was_cut_is_never_taken_for_whole(stream: bytes) -> None:
    decoder = ChunkDecoder()
    decoder.put(stream)

    with pytest.raises(InvalidInput) as caught:
        decoder.finish()
    assert caught.value.code == "protocol.stream-cut"


def test_a_choice_that_was_asked_for_and_never_came_is_missed() -> None:
    with pytest.raises(InvalidInput, match="choice 1 was"):
        decoder = ChunkDecoder(choices=2)
        decoder.put(
            b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        )
        decoder.finish()


@pytest.mark.parametrize(
    "chunk",
    [
        [],
        7,
        {"choices": {}},
        {"choices": [3]},
        content(5),
        {"choices": [{"index": "0", "delta": {}}]},
        {"choices": [{"index": 0, "delta": []}]},
        content("a", logprobs={"content": [1]}),
        {"choices": [{"index": 0, "delta": {"tool_calls": {"a": 1}}}]},
        {"choices": [], "usage": {"prompt_tokens": "3"}},
    ],
)
def test_a_chunk_of_another_shape_is_refused(chunk: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        put(chunk)
    assert caught.value.code == "protocol.bad-chunk"


def test_a_very_deep_chunk_is_refused() -> None:
    with pytest.raises(InvalidInput):
        ChunkDecoder().put(b"data: " + b"[" * 100_000 + b"\n\n")


def test_halves_of_a_surrogate_pair_are_joined_over_chunks() -> None:
    assert said(put(content("a\ud83d"), content("\ude00b"), content("c"))) == "a\U0001f600bc"


def arguments(text: str) -> dict[str, Any]:
    call = {"index": 0, "function": {"arguments": text}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


def test_halves_in_the_arguments_of_a_call_are_joined_too() -> None:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    items = put(arguments('"\ud83d'), arguments('\ude00"\ud83d'), end)

    told = [item.call.arguments for item in of(items, DeltaFrame)]
    assert told == ['"', '\U0001f600"', "\ufffd"]


@pytest.mark.parametrize("index", [-1, 5000])
def test_a_choice_that_cannot_be_is_refused(index: int) -> None:
    for delta in ({"content": "a"}, {"content": "a", "refusal": "b"}):
        with pytest.raises(InvalidInput, match="out of range"):
            put({"choices": [{"index": index, "delta": delta}]})


def test_a_half_that_stays_alone_is_replaced() -> None:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

    assert said(put(content("a\ud83d"), content("b"))) == "a\ufffdb"
    assert said(put(content("\ude00"), content("\ud83d"), end)) == "\ufffd\ufffd"


@given(st.lists(st.text(), max_size=8))
def test_any_text_arrives_as_it_was_sent(texts: list[str]) -> None:
    assert said(put(*map(content, texts))) == "".join(texts)


@given(st.text(min_size=1), st.booleans(), st.integers(0, 99))
def test_the_quick_way_says_what_the_full_one_says(text: str, escaped: bool, index: int) -> None:
    chunk = {"id": "x", "choices": [{"delta": {"content": text}, "index": index}]}
    quick, full = ChunkDecoder(), ChunkDecoder()
    begin = b'data: {"id":"x","choices":[{"index":0,"delta":{}}]}\n\n'
    quick.put(begin), full.put(begin)
    line = f"data: {json.dumps(chunk, ensure_ascii=escaped)}\n\n".encode()

    # A field that nobody knows keeps the native part from taking it.
    strange = line.replace(b'{"id"', b'{"strange":{"a":1},"id"', 1)
    assert quick.put(line) == full.put(strange)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "index",
                    "usage",
                    "error",
                    "logprobs",
                    "tool_calls",
                    "function",
                    "finish_reason",
                    "id",
                    "message",
                    "text",
                    "reasoning",
                ]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(_ANY)
def test_no_json_makes_the_decoder_fail_otherwise_than_by_its_own_error(value: Any) -> None:
    with suppress(InvalidInput):
        put(value)


def test_what_comes_before_a_bad_chunk_in_the_same_bytes_is_not_lost():
    decoder = ChunkDecoder()
    good = b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'
    items = decoder.put(good + b"data: {garbage\n\n")

    assert [item.text for item in items if isinstance(item, DeltaFrame)] == ["Hi"]
    for ask in (lambda: decoder.put(good), decoder.finish):
        with pytest.raises(InvalidInput):
            ask()
