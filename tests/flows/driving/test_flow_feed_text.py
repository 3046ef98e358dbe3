"""`feed_text`: text in and text out, without an element object for it; the rest as `feed` does."""

import pytest

import torvyn
from torvyn.components import Blocklist
from torvyn.errors import FlowError


def shout(element):
    return element.text.upper()


def twice(element):
    return [element.text, element.text]


def marked(element):
    return torvyn.Output(element.text, attributes={"mark": 1})


def fails(element):
    raise ValueError("no")


def guard(action):
    return Blocklist({"words": ["secret"], "mode": "stream", "action": action})


@pytest.mark.parametrize(
    ("stage", "text", "out"),
    [(shout, "ß", "SS"), (twice, "ab", "abab"), (twice, "你", "你你")],
)
def test_text_is_given_joined(stage, text, out):
    flow = torvyn.Flow(torvyn.processor(stage))
    flow.feed("first")

    assert flow.feed_text(text) == out


def test_what_is_held_is_an_empty_text():
    flow = torvyn.Flow(guard("replace"))
    flow.feed("it")

    given = [flow.feed_text(text) for text in (" is", " sec", "ret", " now")]

    assert given[0] == " is"
    assert "".join(given) == " is *** now"
    assert flow.statistics.live == 0


def test_what_has_attributes_comes_as_elements():
    flow = torvyn.Flow(torvyn.processor(marked))
    flow.feed("first")
    (element,) = flow.feed_text("a")

    assert (element.text, element.attributes) == ("a", {"mark": 1})


def test_the_end_of_the_flow_comes_as_elements():
    flow = torvyn.Flow(guard("block"))
    flow.feed("it is ")

    assert flow.feed_text("secret ") == []
    assert flow.end.finish_reason == "content_filter"


def test_a_flow_that_is_over_takes_no_text():
    flow = torvyn.Flow(torvyn.processor(shout))
    flow.feed("a")
    flow.finish()

    with pytest.raises(FlowError) as raised:
        flow.feed_text("b")
    assert raised.value.code == "reactor.already-ran"


def test_a_failure_is_raised():
    flow = torvyn.Flow(torvyn.processor(shout), torvyn.processor(fails))

    with pytest.raises(torvyn.TorvynError):
        flow.feed_text("a")
