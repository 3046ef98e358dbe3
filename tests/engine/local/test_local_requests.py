"""The engine `local` on a real model: tools that must be called, images, prompts as they are."""

from __future__ import annotations

import json

import pytest
from local_model import needs_model

from torvyn.engine import ChoiceStep, Request, Step
from torvyn.engine.local.engine import Local
from torvyn.engine.local.tools import Calls, required_tools
from torvyn.errors import Internal, InvalidInput

pytestmark = needs_model


def tool(name, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


CITY = {"type": "string", "enum": ["Rome", "Oslo"]}
LOOK, SING = tool("look", city=CITY), tool("sing", song=CITY)
ASKED = [{"role": "user", "content": "How is the weather in Rome?"}]
QUIET = {"max_tokens": 60, "temperature": 0}


@pytest.fixture(scope="module")
def engine():
    with Local(context=512, parallel=2) as engine:
        yield engine


def only_call(answer):
    """The call of the first choice, its arguments read."""
    (call,) = answer.choices[0].tool_calls
    return call.name, json.loads(call.arguments)


@pytest.mark.parametrize("messages", [ASKED, [{"role": "system", "content": "Be kind."}, *ASKED]])
def test_a_tool_that_is_required_is_called(engine, messages):
    answer = engine.complete(messages, tools=[LOOK, SING], tool_choice="required", **QUIET)

    name, arguments = only_call(answer)
    assert name in ("look", "sing")
    assert next(iter(arguments.values())) in CITY["enum"]
    assert (answer.finish_reason, answer.text) == ("tool_calls", "")
    assert answer.choices[0].tool_calls[0].id.startswith("call_")
    assert answer.usage.completion_tokens > 5


@pytest.mark.parametrize("wanted", ["look", "sing"])
def test_the_tool_that_is_named_is_called(engine, wanted):
    choice = {"type": "function", "function": {"name": wanted}}

    answer = engine.complete(ASKED, tools=[LOOK, SING], tool_choice=choice, **QUIET)

    assert only_call(answer)[0] == wanted


def test_every_choice_calls_a_tool(engine):
    options = {**QUIET, "temperature": 1.0, "seed": 3, "n": 2}

    answer = engine.complete(ASKED, tools=[LOOK], tool_choice="required", **options)

    assert [len(choice.tool_calls) for choice in answer.choices] == [1, 1]
    assert [choice.finish_reason for choice in answer.choices] == ["tool_calls"] * 2


def test_references_inside_the_parameters_hold(engine):
    tools = [tool(name, city={"$ref": "#/$defs/city"}) for name in ("look", "see")]
    for one in tools:
        one["function"]["parameters"]["$defs"] = {"city": CITY}

    answer = engine.complete(ASKED, tools=tools, tool_choice="required", **QUIET)

    assert next(iter(only_call(answer)[1].values())) in CITY["enum"]


def test_a_call_that_is_cut_by_its_limit_says_so(engine):
    options = {"max_tokens": 3, "temperature": 0}

    answer = engine.complete(ASKED, tools=[LOOK], tool_choice="required", **options)

    assert answer.finish_reason == "length"


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_a_tool_that_may_be_left_out_leaves_the_answer_free(engine, choice):
    answer = engine.complete(ASKED, tools=[LOOK], tool_choice=choice, max_tokens=3, temperature=0)

    assert answer.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tool_choice": "required"}, "no `tools`"),
        ({"tool_choice": "perhaps", "tools": [LOOK]}, "one of auto, none, required"),
        ({"tool_choice": {"function": {"name": "run"}}, "tools": [LOOK]}, "not one of the `tools`"),
        ({"tool_choice": {}, "tools": [LOOK]}, "a tool is"),
        ({"tool_choice": "required", "tools": [{"x": 1}]}, "a tool is"),
        (
            {"tool_choice": "required", "tools": [LOOK], "response_format": {"type": "text"}},
            "exclude each other",
        ),
        ({"tool_choice": "required", "tools": [tool("look", x={"type": "no"})]}, "does not accept"),
    ],
)
def test_a_choice_that_cannot_be_kept_is_refused(engine, options, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        engine.complete(ASKED, **options)
    assert caught.value.code == "engine.request-invalid"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"text": "no type"},
        "no part",
    ],
    ids=["image", "audio", "no type", "text"],
)
def test_a_part_that_is_no_text_is_the_callers_mistake(engine, part):
    content = [{"type": "text", "text": "What is this?"}, part]

    with pytest.raises(InvalidInput, match=r"messages\[0\]\.content\[1\]") as caught:
        engine.complete([{"role": "user", "content": content}])
    assert caught.value.code == "engine.request-invalid"


def test_parts_of_text_are_read(engine):
    content = [{"type": "text", "text": "Say hello."}]

    answer = engine.complete([{"role": "user", "content": content}], max_tokens=3, temperature=0)

    assert answer.text.startswith("Hello")


def test_what_the_library_refuses_is_the_callers_mistake(engine):
    with pytest.raises(InvalidInput, match="does not accept") as caught:
        engine.complete(ASKED, tools=[{"x": 1}])
    assert caught.value.code == "engine.request-invalid"


def test_a_raw_prompt_is_continued_as_it_is(engine):
    asked = {"max_tokens": 2, "temperature": 0}
    raw = engine.complete("One, two, three,", raw_prompt=True, **asked)
    answered = engine.complete("One, two, three,", **asked)

    assert raw.text.startswith(" four")
    # No more than its own words: nothing makes a conversation of it.
    assert raw.usage.prompt_tokens < 10 < answered.usage.prompt_tokens


def test_a_raw_prompt_calls_no_tools(engine):
    with pytest.raises(InvalidInput, match="cannot require a tool call"):
        engine.complete("x", raw_prompt=True, tools=[LOOK], tool_choice="required")


def test_fields_that_are_not_ours_are_refused(engine):
    with pytest.raises(InvalidInput, match="does not forward `top_k`"):
        engine.generate("x", extra={"top_k": 1})


# What becomes of the model's JSON, without a model.

CALL = '{"name": "look", "arguments": {"a": {"b": "}"}}}'


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(CALL)])
@pytest.mark.parametrize("form", [CALL, f" {CALL[:-1]} \n}}\n"])
def test_a_call_is_the_same_however_its_json_was_cut(form, size):
    calls, made = Calls(), []
    for at in range(0, len(form), size):
        made += calls.step(Step((ChoiceStep(text=form[at : at + size]),))).choices
    made += calls.step(Step((ChoiceStep(finish_reason="stop", tokens=0),))).choices

    pieces = [part.call for part in made if part.call is not None]
    assert (pieces[0].name, pieces[0].arguments) == ("look", "")
    assert "".join(call.arguments for call in pieces).strip() == '{"a": {"b": "}"}}'
    assert not any(part.text for part in made)
    assert made[-1].finish_reason == "tool_calls"


def test_a_model_that_calls_nothing_has_failed():
    calls = Calls()
    calls.step(Step((ChoiceStep(text="No."),)))

    with pytest.raises(Internal, match="did not call the required tool"):
        calls.step(Step((ChoiceStep(finish_reason="stop", tokens=0),)))


def test_a_request_without_a_choice_forces_nothing():
    assert required_tools(Request.make("x", tools=[LOOK])) == []
