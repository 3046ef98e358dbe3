"""The texts of a request: all that a model reads of it is found, and put back where it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.engine import Request
from torvyn.engine.prompt.prompt_texts import texts_of, with_texts

WORD = "secret"
PICTURE = {"type": "image_url", "image_url": {"url": "https://secret.example/cat.png"}}
CALL = {
    "id": "call-1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"city": "secret", "n": 4111}'},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "a secret tool",
        "parameters": {
            "type": "object",
            "properties": {"secret_place": {"type": "string", "enum": ["secret"]}},
        },
    },
}
PLACES = {
    "a prompt": Request.make("a secret"),
    "a system message": Request.make([{"role": "system", "content": "a secret"}]),
    "a developer message": Request.make([{"role": "developer", "content": "a secret"}]),
    "an earlier answer": Request.make([{"role": "assistant", "content": "a secret"}]),
    "the result of a tool": Request.make(
        [{"role": "tool", "tool_call_id": "call-1", "content": "a secret"}]
    ),
    "a part of the content": Request.make(
        [{"role": "user", "content": [PICTURE, {"type": "text", "text": "a secret"}]}]
    ),
    "a part of a kind that is new": Request.make(
        [{"role": "user", "content": [{"type": "new_text", "words": {"deep": ["a secret"]}}]}]
    ),
    "the name of a speaker": Request.make([{"role": "user", "name": "secret", "content": "Hi"}]),
    "a refusal": Request.make([{"role": "assistant", "refusal": "a secret", "content": None}]),
    "arguments of a call": Request.make([{"role": "assistant", "tool_calls": [CALL]}]),
    "the description of a tool": Request.make("Hi", tools=[TOOL]),
    "the format of the answer": Request.make(
        "Hi", response_format={"type": "json_schema", "json_schema": {"name": "secret"}}
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_word_is_found_wherever_a_model_would_read_it(place):
    assert any(WORD in text.text for text in texts_of(PLACES[place]))


@pytest.mark.parametrize("place", PLACES)
def test_a_word_that_is_rewritten_everywhere_is_nowhere(place):
    request = PLACES[place]
    changed = with_texts(request, [text.text.replace(WORD, "*") for text in texts_of(request)])

    left = json.dumps([changed.prompt, changed.messages, changed.tools, changed.response_format])
    assert WORD not in left.replace("https://secret.example/cat.png", "")
    assert changed.id == request.id


@pytest.mark.parametrize("place", PLACES)
def test_a_request_whose_texts_are_left_alone_is_the_same(place):
    request = PLACES[place]

    same = with_texts(request, [text.text for text in texts_of(request)])
    assert json.dumps(same.messages) == json.dumps(request.messages)
    assert (same.prompt, same.tools) == (request.prompt, request.tools)


def test_arguments_are_read_as_json_however_they_are_spelled():
    arguments = '{"a": "\\u0073ecret", "a": "twice", "card": 4111111111111111}'
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    request = Request.make([{"role": "assistant", "content": None, "tool_calls": [call]}])

    texts = [text.text for text in texts_of(request)]
    assert {"secret", "twice", "4111111111111111"} <= set(texts)
    assert with_texts(request, texts).messages[0]["tool_calls"][0]["function"]["arguments"] == (
        arguments
    )


def test_arguments_that_are_no_json_are_one_text():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "secr'}}
    request = Request.make([{"role": "assistant", "content": None, "tool_calls": [call]}])

    assert '{"a": "secr' in [text.text for text in texts_of(request)]


def test_what_is_no_text_is_left_out():
    request = PLACES["a part of the content"]

    assert [text.text for text in texts_of(request)] == ["a secret"]


def test_texts_know_their_role_and_their_message():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    found = texts_of(Request.make(messages, tools=[TOOL]))

    assert [(text.role, text.message) for text in found[:3]] == [
        ("system", 0),
        ("user", 1),
        ("tools", None),
    ]


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "content": st.one_of(
                st.text(),
                st.none(),
                st.lists(
                    st.one_of(
                        st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}),
                        st.just(PICTURE),
                    )
                ),
            ),
        }
    ),
    min_size=1,
    max_size=6,
)


@given(messages=MESSAGES)
def test_the_texts_of_any_conversation_can_be_put_back(messages):
    request = Request.make(messages)
    texts = [text.text for text in texts_of(request)]

    assert with_texts(request, texts).messages == request.messages
    upper = with_texts(request, [text.upper() for text in texts])
    assert [text.text for text in texts_of(upper)] == [text.upper() for text in texts]
