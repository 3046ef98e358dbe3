"""What leaves a choice keeps its order: reasoning, text and calls of tools, through any flow."""

from __future__ import annotations

from itertools import groupby

import pytest
from flow_components import STAGES, Footer, Upper, blocks, upper_flow
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample

import torvyn
from torvyn.components import Redact
from torvyn.engine import Scripted
from torvyn.protocol.frames import ToolCall


def said(script, through):
    """The kinds and texts of all deltas, and how the answer finished."""
    deltas = list(Scripted(script).generate("x", through=through))
    left = [
        (delta.kind, delta.call.arguments if delta.call else delta.text)
        for delta in deltas
        if delta.text or delta.call
    ]
    return left, [delta.finish_reason for delta in deltas if delta.finish_reason]


def runs(left):
    """The texts, joined where the kind stays the same."""
    return [
        (kind, "".join(text for _, text in run))
        for kind, run in groupby(left, key=lambda one: one[0])
    ]


def test_held_reasoning_leaves_before_the_text_that_follows_it():
    script = [("reasoning", "I must "), ("reasoning", "think."), "echo:", " one", " two", " three"]

    left, _ = said(script, lambda: torvyn.Flow(Redact()))

    assert runs(left) == [("reasoning", "I must think."), ("text", "echo: one two three")]


def test_text_streams_again_after_little_has_waited_behind_reasoning():
    flow = torvyn.Flow(Redact())
    reasoning = torvyn.Output("think.", attributes={"kind": "reasoning"})
    out = [one.text for one in flow.feed([reasoning])]

    # Eight tokens wait, each of which counts as eight bytes of 64; the ninth lets all go.
    words = [f"{letter * 2}, " for letter in "abcdefghi"]
    out += [[one.text for one in flow.feed([word])] for word in words]

    assert out == [*[[]] * 8, ["think.", *words]]


def test_a_word_that_is_split_over_two_stretches_of_reasoning_does_not_leak():
    script = [("reasoning", "a sec"), "Hello", ("reasoning", "ret."), " you"]

    left, _ = said(script, lambda: torvyn.Flow(blocks("secret", action="replace")))

    assert runs(left) == [
        ("reasoning", "a ***"),
        ("text", "Hello"),
        ("reasoning", "."),
        ("text", " you"),
    ]


def test_a_call_leaves_after_the_text_before_it():
    script = ["see jo", ToolCall(0, "c", "f", "{}"), "@ex.org ", "done"]

    left, _ = said(script, lambda: torvyn.Flow(Redact()))

    assert runs(left) == [("text", "see [email]"), ("tool_call", "{}"), ("text", " done")]


@pytest.mark.parametrize("where", STAGES)
def test_a_flow_that_knows_no_kinds_ends_where_the_kind_changes(where):
    script = [
        ("reasoning", "let me think"),
        "no. yes",
        ToolCall(0, "c", "f", "{}"),
        "so. ",
        ("reasoning", "hm"),
    ]

    left, finishes = said(script, upper_flow(where))

    assert runs(left) == [
        ("reasoning", "LET ME THINK"),
        ("text", "NO. YES"),
        ("tool_call", "{}"),
        ("text", "SO. "),
        ("reasoning", "HM"),
    ]
    assert finishes == ["stop"]


@pytest.mark.parametrize("where", STAGES)
@settings(max_examples=sample(10, full=20), deadline=None)
@given(
    items=st.lists(
        st.tuples(
            st.sampled_from(["text", "reasoning", "tool_call"]), st.sampled_from(["a b. ", "c"])
        ),
        max_size=12,
    )
)
def test_nothing_is_lost_or_moved_in_any_interleaving(where, items):
    script = [
        {"text": text, "reasoning": ("reasoning", text)}.get(kind)
        or ToolCall(0, arguments=text.upper())
        for kind, text in items
    ]

    left, _ = said(script, upper_flow(where))

    assert runs(left) == runs([(kind, text.upper()) for kind, text in items])


def test_text_that_a_flow_adds_comes_once_where_there_is_no_text():
    left, _ = said([("reasoning", "hm")], lambda: torvyn.Flow(Upper(), Footer()))

    assert runs(left) == [("reasoning", "HM(end)"), ("text", "(end)")]


@pytest.mark.parametrize("stage", [None, *STAGES])
def test_a_block_in_reasoning_ends_the_choice_before_later_text(stage):
    def make():
        return torvyn.Flow(blocks("badword"), *([STAGES[stage]()] if stage else []))

    left, finishes = said([("reasoning", "fine badword"), "Hello ", "you"], make)

    assert [(kind, text.lower()) for kind, text in runs(left)] == [("reasoning", "fine ")]
    assert finishes == ["content_filter"]
