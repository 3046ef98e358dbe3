"""A request is judged as a whole, also when it is made from another one."""

from __future__ import annotations

import pytest

from torvyn.engine import Request
from torvyn.errors import InvalidInput


def test_a_request_made_from_another_keeps_what_is_not_changed():
    first = Request.make("x", max_tokens=3, stop=["a"], request_id="one")

    second = Request.make(first, stop="b", request_id="two")

    assert (second.prompt, second.max_tokens) == ("x", 3)
    assert (second.stop, second.id) == (("b",), "two")
    assert Request.make(first) is first


@pytest.mark.parametrize("options", [{"n": 0}, {"stop": ""}, {"stop": 5}, {"tools": "x"}, {"x": 1}])
def test_what_is_changed_is_judged_too(options):
    with pytest.raises(InvalidInput) as caught:
        Request.make(Request.make("x"), **options)

    assert caught.value.code == "engine.request-invalid"


@pytest.mark.promise("responses.request-errors")
@pytest.mark.parametrize("asked", ["", [], [{"role": "nobody"}], ["text"]])
def test_nothing_to_ask_is_refused(asked):
    with pytest.raises(InvalidInput):
        Request.make(asked)


@pytest.mark.parametrize("asked", [None, 42, {"role": "user", "content": "Hi"}])
def test_what_is_neither_text_nor_messages_is_refused(asked):
    with pytest.raises(InvalidInput, match="a prompt is text or a list of messages"):
        Request.make(asked)


@pytest.mark.promise("responses.request-errors")
def test_a_misspelt_option_is_told_with_the_right_one():
    with pytest.raises(InvalidInput, match="not an option of a request; `max_tokens` is"):
        Request.make("x", max_token=3)
