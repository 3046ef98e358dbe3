"""Whole answers: what a client gets that does not stream."""

from __future__ import annotations

from torvyn.engine.delta import Choice
from torvyn.protocol import StartFrame, ToolCall, Usage
from torvyn.protocol.openai.response_bodies import chat_body, completion_body, error_body

START = StartFrame("req-1", "chat", 1700000000)
USAGE = Usage(5, 2)


def test_a_chat_answer_is_a_message_with_a_finish_reason() -> None:
    body = chat_body(START, [Choice(0, "Hi", "stop", matched_stop="END")], USAGE)

    assert body["object"] == "chat.completion"
    assert body["model"] == "chat"
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hi", "refusal": None}
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "END")
    assert body["usage"]["total_tokens"] == 7


def test_calls_and_reasoning_stand_beside_the_content() -> None:
    calls = (ToolCall(0, "c", "now", "{}"),)
    choice = Choice(0, "", "tool_calls", reasoning="hm", tool_calls=calls)
    message = chat_body(START, [choice], USAGE)["choices"][0]["message"]

    assert message["content"] is None
    assert message["reasoning_content"] == "hm"
    function = {"name": "now", "arguments": "{}"}
    assert message["tool_calls"] == [{"id": "c", "type": "function", "function": function}]


def test_a_completion_keeps_text_and_columns_of_logprobs() -> None:
    odds = ({"token": "Hi", "logprob": -0.5, "top_logprobs": [{"token": "Hi", "logprob": -0.5}]},)
    (choice,) = completion_body(START, [Choice(0, "Hi", "length", logprobs=odds)], USAGE)["choices"]

    assert choice["text"] == "Hi"
    columns = {"tokens": ["Hi"], "token_logprobs": [-0.5], "top_logprobs": [{"Hi": -0.5}]}
    assert choice["logprobs"] == columns


def test_an_error_has_the_four_members_that_clients_read() -> None:
    error = error_body("a.b", "no")["error"]

    assert error == {
        "message": "no",
        "type": "invalid_request_error",
        "param": None,
        "code": "a.b",
    }
