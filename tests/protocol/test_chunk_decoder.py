"""Upstreams: streams in the shapes of real providers."""

from __future__ import annotations

import pytest
from upstream_streams import NAMES, decode, of, said

from torvyn.protocol import DONE, DeltaFrame, Finish, StartFrame, ToolCall, Usage

HELLO = [name for name in NAMES if name.partition("_")[2] in ("", "cpp")]


@pytest.mark.parametrize("name", HELLO)
def test_the_text_is_found_in_the_shape_of_each_provider(name: str) -> None:
    items = decode(name, choices=2 if name == "vllm" else 1)

    assert said(items) == "Hello world"
    assert items[-1] is DONE
    assert of(items, StartFrame) == items[:1]


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_cut_anywhere_says_the_same(name: str) -> None:
    choices = 2 if name == "vllm" else 1
    whole = decode(name, choices=choices)

    assert decode(name, 1, choices) == whole
    assert decode(name, 7, choices) == whole


def test_the_start_is_the_first_chunk_that_names_its_answer() -> None:
    assert decode("azure")[0] == StartFrame("chatcmpl-az", "gpt-4o-2024-05-13", 1741570005)
    assert decode("openai")[0] == StartFrame("chatcmpl-B1", "gpt-4o-2024-08-06", 1741569952)


FINISHES = {
    "openai": [Finish(0, "stop")],
    "vllm": [Finish(0, "stop", "END"), Finish(1, "stop")],
    "sglang": [Finish(0, "stop", "###")],
    "azure": [Finish(0, "content_filter")],
    "mlc": [Finish(0, "length")],
    "ollama": [Finish(0, "tool_calls")],
    "openrouter": [Finish(0, "stop", native_reason="eos")],
    "openrouter_error": [Finish(0, "error")],
    "openai_completions": [Finish(0, "length")],
}


@pytest.mark.parametrize("name", FINISHES)
def test_each_choice_finishes_once(name: str) -> None:
    assert of(decode(name, choices=len(FINISHES[name])), Finish) == FINISHES[name]


USAGES = {
    "openai": Usage(19, 2, cached_tokens=3, reasoning_tokens=1),
    "vllm": Usage(30, 3),
    "llama_cpp": Usage(12, 2),
    "mlc": Usage(5, 2),
    "mistral": Usage(8, 4),
    "deepseek": Usage(11, 9, cached_tokens=4, reasoning_tokens=5),
    "groq": Usage(40, 2),
    "openrouter": Usage(14, 3),
}


@pytest.mark.parametrize("name", USAGES)
def test_usage_is_found_wherever_it_is_kept(name: str) -> None:
    assert of(decode(name, choices=2 if name == "vllm" else 1), Usage) == [USAGES[name]]


@pytest.mark.parametrize("name", ["deepseek", "sglang", "mistral", "openrouter"])
def test_reasoning_is_never_mixed_with_text(name: str) -> None:
    assert said(decode(name), kind="reasoning") == "Hm."


def test_pieces_of_calls_keep_their_places() -> None:
    calls = [delta.call for delta in of(decode("openai_tools"), DeltaFrame)]

    assert calls == [
        ToolCall(0, "call_a", "get_weather", ""),
        ToolCall(0, arguments='{"city":'),
        ToolCall(0, arguments='"Paris"}'),
        ToolCall(1, "call_b", "now", "{}"),
    ]


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    calls = [delta.call for delta in of(decode("mistral"), DeltaFrame) if delta.call]

    assert calls == [ToolCall(0, "a1", "f", "{}"), ToolCall(1, "a2", "g", "[]")]


def test_logprobs_of_both_dialects_have_one_form() -> None:
    (chat,) = of(decode("openai_logprobs"), DeltaFrame)
    words = of(decode("openai_completions"), DeltaFrame)

    assert chat.logprobs is not None
    assert chat.logprobs[0]["token"] == "Hi"
    tops = [{"token": "One", "logprob": -0.5}, {"token": "Two", "logprob": -1.5}]
    assert words[0].logprobs == ({"token": "One", "logprob": -0.5, "top_logprobs": tops},)
    assert said(words) == "One two"
