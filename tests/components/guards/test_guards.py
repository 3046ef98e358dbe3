"""Guards in flows: what leaves, when, with which attributes, and what is counted."""

import logging
import operator

import pytest
from guard_forms import STREAM, all_forms, run_guard
from hypothesis import given, settings
from hypothesis import strategies as st

import torvyn
from torvyn import Output, Verdict
from torvyn.components import Blocklist, Redact
from torvyn.testing import CollectingSink


@all_forms
def test_a_word_that_is_split_over_tokens_does_not_leak(form):
    texts, flow = run_guard(form(Blocklist)(STREAM), ["the ", "sec", "ret", " is", " sec", "ond"])
    assert "".join(texts) == "the *** is second"
    (node,) = (node for node in flow.statistics.nodes.values() if node.role == "filter")
    assert (node.matches, node.exposed_chars, node.held_bytes) == (1, 0, 0)


def test_what_cannot_become_a_match_does_not_wait():
    texts, _ = run_guard(Blocklist(STREAM), ["the big", " sec", "tion", " se"])
    assert texts == ["the big", " ", "sec", "tion", " ", "se"]


@all_forms
def test_a_word_at_the_very_end_is_found(form):
    texts, flow = run_guard(form(Blocklist)(STREAM), ["a ", "secret"])
    assert ("".join(texts), flow.end.finish_reason) == ("a ***", "stop")


@all_forms
def test_block_lets_out_what_is_before_and_ends_the_stream(form):
    guard = form(Redact)({"action": "block"})
    texts, flow = run_guard(guard, ["mail ", "jo@exa", "mple.com", " or", " not"])
    assert ("".join(texts), flow.end.finish_reason) == ("mail ", "content_filter")
    assert "redact" in flow.end.reason


@all_forms
def test_block_at_the_very_end_is_told_too(form):
    texts, flow = run_guard(form(Blocklist)({**STREAM, "action": "block"}), ["the ", "secret"])
    assert ("".join(texts), flow.end.finish_reason) == ("the ", "content_filter")


@all_forms
def test_optimistic_passes_text_at_once_and_counts_what_it_exposed(form):
    guard = form(Blocklist)({**STREAM, "match": "substring", "policy": "optimistic"})
    texts, flow = run_guard(guard, ["my sec", "ret is"])
    assert (texts[0], "".join(texts[1:])) == ("my sec", "*** is")
    assert sum(node.exposed_chars for node in flow.statistics.nodes.values()) == 3


@all_forms
def test_shadow_changes_nothing_and_counts(form):
    tokens = ["my sec", "ret", " is"]
    texts, flow = run_guard(form(Blocklist)({**STREAM, "policy": "shadow"}), tokens)
    assert texts == tokens
    assert sum(node.matches for node in flow.statistics.nodes.values()) == 1


@all_forms
def test_every_match_is_audited_without_its_text(form, caplog):
    caplog.set_level(logging.INFO, "torvyn.guard")
    run_guard(form(Redact)(), ["mail jo@exam", "ple.com", " now"])
    (record,) = caplog.records
    assert (record.event, record.guard, record.rule) == ("guard.match", "redact", "email")
    assert (record.position, record.length, record.exposed) == (5, 14, 0)
    assert "example" not in record.getMessage()


def piece(text, **attributes):
    return Output(text, attributes=attributes)


def test_what_tells_a_token_leaves_with_the_last_piece_of_its_text():
    tokens = [piece("a sec", logprobs=[1], choice=0), piece("ond", logprobs=[2], choice=0)]
    elements = list(torvyn.Flow(tokens, Blocklist(STREAM)))
    assert [(element.text, dict(element.attributes)) for element in elements] == [
        ("a ", {"choice": 0}),
        ("sec", {"choice": 0, "logprobs": [1]}),
        ("ond", {"choice": 0, "logprobs": [2]}),
    ]


@all_forms
def test_what_tells_a_token_does_not_outlive_its_text(form):
    tokens = [
        piece("a sec", token_ids=[1]),
        piece("ret b", token_ids=[2]),
        piece(".", token_ids=[3]),
    ]
    elements = list(torvyn.Flow(tokens, form(Blocklist)(STREAM)))
    assert "".join(element.text for element in elements) == "a *** b."
    ids = [element.attributes.get("token_ids") for element in elements]
    assert [each for each in ids if each] == [[3]]


@all_forms
def test_kinds_and_choices_are_streams_of_their_own(form):
    tokens = [
        piece("sec", kind="reasoning"),
        piece("ret", kind="text"),
        piece("sec", choice=1),
        piece("ret ", kind="reasoning"),
        piece("secret", kind="tool_call"),
    ]
    elements = list(torvyn.Flow(tokens, form(Blocklist)(STREAM)))
    texts: dict[tuple[str, int], str] = {}
    for element in elements:
        text = (element.attributes.get("kind", "text"), element.attributes.get("choice", 0))
        texts[text] = texts.get(text, "") + element.text
    assert texts == {
        ("text", 0): "ret",
        ("text", 1): "sec",
        ("reasoning", 0): "*** ",
        ("tool_call", 0): "secret",
    }


class Number:
    """A whole number of a library."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


BAD_CHOICES = ("1", "", b"1", 1.0, 0.5, float("nan"), 2**63, [1], (1,), {}, object(), Number)
BAD_KINDS = (1, 0, False, b"text", 0.5, ["text"], "\ud800", object())
NO_TEXTS = [
    *(("choice", value) for value in BAD_CHOICES),
    *(("kind", value) for value in BAD_KINDS),
]


@all_forms
@pytest.mark.parametrize(("name", "value"), NO_TEXTS)
def test_an_element_of_no_certain_text_is_refused_with_the_node(form, name, value):
    tokens = [piece("sec"), piece("sec", **{name: value}), piece("ret ")]
    flow = torvyn.Flow(tokens, form(Blocklist)(STREAM))
    left = []
    with pytest.raises(torvyn.InvalidInput, match=f"the attribute `{name}` must be") as caught:
        left.extend(element.text for element in flow)
    (node,) = (name for name, node in flow.statistics.nodes.items() if node.role == "filter")
    assert f"`{node}`" in str(caught.value)
    assert "secret" not in "".join(left)


CHOICES = (None, 0, 1, True, Number(1), -1, 2**63 - 1)
FRAGMENTS = ("sec", "ret", "se", "cret", "secret", " ", "x")


@all_forms
@given(st.lists(st.tuples(st.sampled_from(CHOICES), st.sampled_from(FRAGMENTS)), max_size=20))
@settings(deadline=None, max_examples=20)
def test_no_blocked_word_leaves_in_the_text_of_any_choice(form, parts):
    tokens = [piece(text, choice=choice) for choice, text in parts]
    guard = form(Blocklist)({**STREAM, "match": "substring"})
    left: dict[int, str] = {}
    for element in torvyn.Flow(tokens, guard):
        choice = operator.index(element.attributes.get("choice") or 0)
        left[choice] = left.get(choice, "") + element.text
    said: dict[int, str] = {}
    for name, text in parts:
        choice = operator.index(name or 0)
        said[choice] = said.get(choice, "") + text
    assert left == {choice: text.replace("secret", "***") for choice, text in said.items()}


def test_an_interrupt_forgets_what_is_held():
    class Speaker(torvyn.Source):
        tokens = iter(["sec", None, "ret "])

        def pull(self):
            token = next(self.tokens, torvyn.End("stop"))
            if token is None:
                self.interrupt()
                return ""
            return token

    texts = [element.text for element in torvyn.Flow(Speaker(), Blocklist(STREAM))]
    assert "".join(texts) == "ret "


def test_text_that_waits_counts_against_the_budget():
    flow = torvyn.Flow(["secre"] * 3, Blocklist(STREAM))
    list(flow)
    (node,) = (node for node in flow.statistics.nodes.values() if node.role == "filter")
    assert node.peak_held_bytes == 5


def test_a_payload_that_is_no_text_does_not_pass():
    with pytest.raises(torvyn.InvalidInput):
        list(torvyn.Flow([b"\xff"], Blocklist(STREAM)))


@all_forms
def test_matches_that_overlap_count_once_and_are_replaced_once(form):
    config = {**STREAM, "words": ["abc", "cde"], "match": "substring", "policy": "optimistic"}
    texts, flow = run_guard(form(Blocklist)(config), ["xa", "bc", "d", "e", "y"])
    assert texts == ["xa", "***", "d", "y"]
    (node,) = (node for node in flow.statistics.nodes.values() if node.role == "filter")
    # Of `abcde`, `a` had left before `abc` was known, and `d` before `cde` was.
    assert (node.matches, node.exposed_chars) == (1, 2)


@all_forms
def test_a_block_lets_out_what_waits_in_other_texts(form):
    guard = form(Blocklist)({**STREAM, "action": "block"})
    tokens = [
        piece("one sec", kind="reasoning"),
        piece("two sec", choice=1),
        piece("a secret ", kind="text"),
        piece("more", kind="text"),
    ]
    elements = list(torvyn.Flow(tokens, guard))
    assert [(element.attributes.get("choice", 0), element.text) for element in elements] == [
        (0, "one "),
        (1, "two "),
        (0, "sec"),
        (0, "a "),
        (1, "sec"),
    ]


def test_a_filter_may_put_several_outputs_in_the_place_of_an_element():
    def doubles(element):
        if element.text == "hold":
            return Verdict.hold()
        return Verdict.replace([piece(element.text, kind="a"), piece("+", kind="b")])

    flow = torvyn.Flow(["x", "hold", "y"], torvyn.filter(doubles))
    assert [(element.text, element.attributes["kind"]) for element in flow] == [
        ("x", "a"),
        ("+", "b"),
        ("y", "a"),
        ("+", "b"),
    ]
    assert (flow.statistics.filtered, flow.statistics.live) == (1, 0)


def test_a_filter_may_send_outputs_before_it_blocks():
    def blocks(element):
        return Verdict.block("enough", [Output("last")])

    flow = torvyn.Flow(["x", "y"], torvyn.filter(blocks))
    assert ([element.text for element in flow], flow.end.finish_reason) == (
        ["last"],
        "content_filter",
    )


def test_a_replacement_by_nothing_sends_nothing():
    def quiet(element):
        return Verdict.replace("") if element.text == "b" else True

    flow = torvyn.Flow(["a", "b", "c"], torvyn.filter(quiet))
    assert list(flow.text()) == ["a", "c"]
    assert (flow.statistics.filtered, flow.statistics.live) == (1, 0)


def test_a_block_waits_for_room_for_what_came_before_it():
    guard = Blocklist({**STREAM, "action": "block", "match": "substring"})
    sink = CollectingSink()
    flow = torvyn.Flow(["a sec", "x secret ", "more"], guard, sink, queue_depth=1)
    flow.run()
    assert sink.texts == ["a ", "sec", "x "]
    assert (flow.end.finish_reason, flow.statistics.live) == ("content_filter", 0)


def test_guards_work_in_flows_that_are_fed():
    flow = torvyn.Flow(Blocklist(STREAM))
    out = [element.text for token in ("my sec", "ret", " is") for element in flow.feed([token])]
    out += [element.text for element in flow.finish()]
    assert out == ["my ", "***", " is"]
