"""The order of guarded elements, over random interleavings of kinds, choices and calls of tools.

What leaves a choice keeps the order in which it came; of each kind and choice what leaves is the
guard's answer to the whole; nothing is lost. The oracle guards each text by itself, in one piece.
"""

import functools
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample

import torvyn
from torvyn import Output
from torvyn.components import Blocklist, Pattern, Redact
from torvyn.engine import Scripted
from torvyn.protocol.frames import ToolCall

POLICIES = ["hold", "optimistic", "shadow"]
KINDS = ["text", "reasoning", "tool_call"]
GUARDS = {
    "blocklist": (Blocklist, {"words": ["secret", "ret a"], "mode": "stream"}),
    "pattern": (Pattern, {"patterns": [r"se\w{0,6}t", "a b"], "window": 8}),
    "redact": (Redact, {"data": ["email", "card"]}),
}
PIECES = {
    "blocklist": ["sec", "ret", " a", "s", "e", "secret", " ", "x"],
    "pattern": ["se", "cre", "t", " a", "a b", " "],
    "redact": ["jo", "@", "ex.org", " ", "4111 1111", " 1111 1111", "x"],
}
# The most that may wait behind held text: eight elements of at most eight bytes.
SHORT = 8


def in_python(cls):
    return type("Own", (cls,), {})


def on_a_thread(cls):
    return type("Own", (cls,), {"run": "thread"})


FORMS = {"native": lambda cls: cls, "python": in_python, "thread": on_a_thread}


def elements(name):
    piece = st.tuples(
        st.sampled_from(KINDS), st.integers(0, 1), st.sampled_from([*PIECES[name], ""])
    )
    return st.lists(piece, max_size=24)


def lane_of(one):
    return one.attributes.get("kind", "text"), one.attributes.get("choice", 0)


def run(form, name, policy, items, **options):
    cls, config = GUARDS[name]
    guard = FORMS[form](cls)({**config, "policy": policy, "action": "replace", **options})
    source = [
        Output(text, attributes={"kind": kind, "choice": choice, "mark": number})
        for number, (kind, choice, text) in enumerate(items)
    ]
    flow = torvyn.Flow(source, guard)
    return list(flow), flow


def joined(pieces):
    texts: dict[tuple[str, int], str] = {}
    for lane, text in pieces:
        texts[lane] = texts.get(lane, "") + text
    return {lane: text for lane, text in texts.items() if text}


@functools.cache
def whole(name, policy, text):
    """What a guard makes of a text that comes in one piece."""
    out, _ = run("native", name, policy, [("text", 0, text)])
    return "".join(one.text for one in out)


def in_order(out, items):
    """Whether each choice's elements leave in the order of the elements they come from."""
    for choice in (0, 1):
        marks = [one.attributes["mark"] for one in out if lane_of(one)[1] == choice]
        runs = [items[mark][0] for mark in marks]
        if marks != sorted(marks) or runs != [
            lane_of(one)[0] for one in out if lane_of(one)[1] == choice
        ]:
            return False
    return True


def waits_little(items):
    """Whether elements of a kind are so close together that held text is never released."""
    for choice in (0, 1):
        own = [item for item in items if item[1] == choice]
        runs = [list(run) for _, run in groupby(own, key=lambda item: item[0])]
        if sum(len(run) for run in runs) > SHORT:
            return False
    return True


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", GUARDS)
@settings(max_examples=sample(8, full=25), deadline=None)
@given(data=st.data())
def test_elements_of_a_choice_leave_in_the_order_of_arrival(form, policy, name, data):
    items = data.draw(elements(name))

    out, flow = run(form, name, policy, items)

    assert in_order(out, items)
    assert flow.statistics.live == 0
    calls = [text for kind, choice, text in items if kind == "tool_call"]
    assert sorted(one.text for one in out if lane_of(one)[0] == "tool_call") == sorted(calls)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GUARDS)
@settings(max_examples=sample(8, full=40), deadline=None)
@given(data=st.data())
def test_each_kind_and_choice_is_guarded_as_one_text(form, name, data):
    items = data.draw(elements(name).filter(waits_little))

    out, _ = run(form, name, "hold", items)

    expected = {
        lane: text if lane[0] == "tool_call" else whole(name, "hold", text)
        for lane, text in joined(((kind, choice), text) for kind, choice, text in items).items()
    }
    left = joined((lane_of(one), one.text) for one in out)
    assert left == {lane: text for lane, text in expected.items() if text}


@pytest.mark.parametrize("policy", ["optimistic", "shadow"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GUARDS)
@settings(max_examples=sample(8, full=25), deadline=None)
@given(data=st.data())
def test_nothing_waits_where_text_leaves_at_once(form, name, policy, data):
    items = data.draw(elements(name))

    out, flow = run(form, name, policy, items, action="drop")

    (node,) = (node for node in flow.statistics.nodes.values() if node.role == "filter")
    assert node.peak_held_bytes == 0
    if policy == "shadow":
        assert [(lane_of(one), one.text) for one in out if one.text] == [
            ((kind, choice), text) for kind, choice, text in items if text
        ]


@settings(max_examples=sample(8, full=60), deadline=None)
@given(data=st.data())
def test_both_forms_give_the_same_text_and_matches(data):
    name = data.draw(st.sampled_from([*GUARDS]))
    policy = data.draw(st.sampled_from(POLICIES))
    items = data.draw(elements(name))

    (native, one), (python, other) = (
        run(form, name, policy, items) for form in FORMS if form != "thread"
    )

    def text(out):
        return joined((lane_of(element), element.text) for element in out)

    def found(flow):
        return [
            (node.matches, node.exposed_chars)
            for node in flow.statistics.nodes.values()
            if node.role == "filter"
        ]

    assert text(native) == text(python)
    assert found(one) == found(other)


def answered(script, make):
    deltas = list(Scripted(script).generate("x", through=make))
    return [
        (delta.kind, delta.call.arguments if delta.call else delta.text)
        for delta in deltas
        if delta.text or delta.call
    ]


@settings(max_examples=sample(8, full=40), deadline=None)
@given(
    items=st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from(PIECES["redact"])), max_size=16
    )
)
def test_answers_through_guards_keep_their_order(items):
    script = [
        {"text": text, "reasoning": ("reasoning", text)}.get(kind) or ToolCall(0, arguments=text)
        for kind, text in items
    ]

    left = answered(script, lambda: torvyn.Flow(Redact({"data": ["email", "card"]})))

    asked = [kind for kind, _ in groupby(kind for kind, _ in items)]
    given_out = [kind for kind, _ in groupby(kind for kind, _ in left)]
    position = iter(asked)
    assert all(kind in position for kind in given_out)
    assert [text for kind, text in left if kind == "tool_call"] == [
        text for kind, text in items if kind == "tool_call"
    ]
