"""Guards in flows: what leaves, when, with which attributes, and what is counted."""

import logging

import pytest
from guard_forms import STREAM, all_forms, run_guard

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
