"""Guards in flows and by themselves: what leaves, when, with which attributes, and what is told."""

import logging

import pytest

import torvyn
from torvyn import Element, Output, Verdict
from torvyn.components.builtin.filter_blocklist import Blocklist
from torvyn.components.builtin.filter_pattern import Pattern
from torvyn.components.builtin.filter_redact import Redact
from torvyn.errors import ContractError, LinkError
from torvyn.testing import CollectingSink

STREAM = {"words": ["secret"], "mode": "stream", "action": "replace"}


def in_python(cls):
    """The same guard as a component in Python."""
    return type("Own", (cls,), {})


def on_a_thread(cls):
    return type("Own", (cls,), {"run": "thread"})


both = pytest.mark.parametrize(
    "form", [lambda cls: cls, in_python, on_a_thread], ids=["native", "python", "thread"]
)


def ran(guard, tokens):
    flow = torvyn.Flow(tokens, guard)
    return [element.text for element in flow], flow


@both
def test_a_word_that_is_split_over_tokens_does_not_leak(form):
    texts, flow = ran(form(Blocklist)(STREAM), ["the ", "sec", "ret", " is", " sec", "ond"])
    assert "".join(texts) == "the *** is second"
    (node,) = (node for node in flow.statistics.nodes.values() if node.role == "filter")
    assert (node.matches, node.exposed_chars, node.held_bytes) == (1, 0, 0)


def test_what_cannot_become_a_match_does_not_wait():
    texts, _ = ran(Blocklist(STREAM), ["the big", " sec", "tion", " se"])
    assert texts == ["the big", " ", "sec", "tion", " ", "se"]


@both
def test_a_word_at_the_very_end_is_found(form):
    texts, flow = ran(form(Blocklist)(STREAM), ["a ", "secret"])
    assert ("".join(texts), flow.end.finish_reason) == ("a ***", "stop")


@both
def test_block_lets_out_what_is_before_and_ends_the_stream(form):
    guard = form(Redact)({"action": "block"})
    texts, flow = ran(guard, ["mail ", "jo@exa", "mple.com", " or", " not"])
    assert ("".join(texts), flow.end.finish_reason) == ("mail ", "content_filter")
    assert "redact" in flow.end.reason


@both
def test_block_at_the_very_end_is_told_too(form):
    texts, flow = ran(form(Blocklist)({**STREAM, "action": "block"}), ["the ", "secret"])
    assert ("".join(texts), flow.end.finish_reason) == ("the ", "content_filter")


@both
def test_optimistic_passes_text_at_once_and_counts_what_it_exposed(form):
    guard = form(Blocklist)({**STREAM, "match": "substring", "policy": "optimistic"})
    texts, flow = ran(guard, ["my sec", "ret is"])
    assert (texts[0], "".join(texts[1:])) == ("my sec", "*** is")
    assert sum(node.exposed_chars for node in flow.statistics.nodes.values()) == 3


@both
def test_shadow_changes_nothing_and_counts(form):
    tokens = ["my sec", "ret", " is"]
    texts, flow = ran(form(Blocklist)({**STREAM, "policy": "shadow"}), tokens)
    assert texts == tokens
    assert sum(node.matches for node in flow.statistics.nodes.values()) == 1


@both
def test_every_match_is_audited_without_its_text(form, caplog):
    caplog.set_level(logging.INFO, "torvyn.guard")
    ran(form(Redact)(), ["mail jo@exam", "ple.com", " now"])
    (record,) = caplog.records
    assert (record.event, record.guard, record.rule) == ("guard.match", "redact", "email")
    assert (record.position, record.length, record.exposed) == (5, 14, 0)
    assert "example" not in record.getMessage()


def piece(text, **attributes):
    return Output(text, attributes=attributes)


def test_what_tells_a_token_leaves_with_the_last_piece_of_its_text():
    tokens = [piece("a sec", logprobs=[1], choice=0), piece("ond", logprobs=[2], choice=0)]
    elements = list(torvyn.Flow(tokens, Blocklist(STREAM)))
    assert [(one.text, dict(one.attributes)) for one in elements] == [
        ("a ", {"choice": 0}),
        ("sec", {"choice": 0, "logprobs": [1]}),
        ("ond", {"choice": 0, "logprobs": [2]}),
    ]


@both
def test_what_tells_a_token_does_not_outlive_its_text(form):
    tokens = [
        piece("a sec", token_ids=[1]),
        piece("ret b", token_ids=[2]),
        piece(".", token_ids=[3]),
    ]
    elements = list(torvyn.Flow(tokens, form(Blocklist)(STREAM)))
    assert "".join(one.text for one in elements) == "a *** b."
    told = [one.attributes.get("token_ids") for one in elements]
    assert [ids for ids in told if ids] == [[3]]


@both
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
    for one in elements:
        lane = (one.attributes.get("kind", "text"), one.attributes.get("choice", 0))
        texts[lane] = texts.get(lane, "") + one.text
    assert texts == {
        ("text", 0): "ret",
        ("text", 1): "sec",
        ("reasoning", 0): "*** ",
        ("tool_call", 0): "secret",
    }


def test_an_interrupt_forgets_what_is_held():
    class Speaker(torvyn.Source):
        said = iter(["sec", None, "ret "])

        def pull(self):
            token = next(self.said, torvyn.End("stop"))
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


def test_blocklist_in_element_mode_may_replace_and_block(start):
    guard = start(Blocklist, {"words": "spam", "action": "replace"})
    assert guard.evaluate(Element(" Spam")).text == "***"
    guard = start(Blocklist, {"words": "spam", "action": "block"})
    assert guard.evaluate(Element("spam")).kind == "block"
    assert Blocklist().native_stage('{"words": "a", "action": "block"}') is None


def test_blocklist_finds_words_in_either_normal_form(start):
    guard = start(Blocklist, {**STREAM, "words": ["café"]})
    assert guard.evaluate(Element("cafe\u0301 ")).text == "*** "
    assert guard.evaluate(Element("CAF\u00c9 ")).text == "*** "


@pytest.mark.parametrize(
    "disguise",
    [
        "sec\u200bret",
        "s\u00ade\u00adcret",
        "\uff33\uff25\uff23\uff32\uff25\uff34",
        "sec\u202er\ufe0fe\u2060t",
        "\U0001d4fc\U0001d4ee\U0001d4ec\U0001d4fb\U0001d4ee\U0001d4fd",
        "se\x00c\x1bret",
    ],
)
@both
def test_a_disguised_word_is_taken_out_and_the_original_text_leaves_around_it(form, disguise):
    guard = form(Blocklist)(STREAM)
    texts, _ = ran(guard, [*f"\ufeffThe_{disguise}_\uff49\uff53  it\u200b."])
    assert "".join(texts) == "\ufeffThe_***_\uff49\uff53  it\u200b."


def test_words_of_a_phrase_may_have_any_white_space_between_them():
    guard = Blocklist({**STREAM, "words": ["top secret"]})
    texts, _ = ran(guard, ["top", "  ", "\u00a0\n", "secret", " top_secret"])
    assert "".join(texts) == "*** top_secret"


def test_homoglyphs_are_an_option():
    cyrillic = "\u0455\u0435\u0441r\u0435t"
    assert "".join(ran(Blocklist(STREAM), [cyrillic])[0]) == cyrillic
    guard = Blocklist({**STREAM, "homoglyphs": True})
    assert "".join(ran(guard, ["a ", cyrillic[:3], cyrillic[3:], "."])[0]) == "a ***."


def test_element_mode_compares_tokens_as_they_are():
    tokens = ["Secret", " secret ", "sec\u200bret", "_secret_", "\uff53ecret"]
    texts, _ = ran(Blocklist({"words": ["secret"]}), tokens)
    assert texts == ["sec\u200bret", "_secret_", "\uff53ecret"]


@both
def test_matches_that_overlap_count_once_and_are_replaced_once(form):
    config = {**STREAM, "words": ["abc", "cde"], "match": "substring", "policy": "optimistic"}
    texts, flow = ran(form(Blocklist)(config), ["xa", "bc", "d", "e", "y"])
    assert texts == ["xa", "***", "d", "y"]
    (node,) = (node for node in flow.statistics.nodes.values() if node.role == "filter")
    # Of `abcde`, `a` had left before `abc` was known, and `d` before `cde` was.
    assert (node.matches, node.exposed_chars) == (1, 2)


@both
def test_a_block_lets_out_what_waits_in_other_texts(form):
    guard = form(Blocklist)({**STREAM, "action": "block"})
    tokens = [
        piece("one sec", kind="reasoning"),
        piece("two sec", choice=1),
        piece("a secret ", kind="text"),
        piece("more", kind="text"),
    ]
    elements = list(torvyn.Flow(tokens, guard))
    assert [(one.attributes.get("choice", 0), one.text) for one in elements] == [
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
    assert [(one.text, one.attributes["kind"]) for one in flow] == [
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
    assert ([one.text for one in flow], flow.end.finish_reason) == (["last"], "content_filter")


def test_a_guard_by_itself_answers_with_verdicts(start):
    guard = start(Redact, "email")
    assert guard.evaluate(Element("to ")) is True
    assert guard.evaluate(Element("jo@")).text == ""
    assert guard.held_bytes == 3
    assert guard.evaluate(Element("a.org, ")).text == "[email], "
    assert (guard.flush(), guard.matches) == ([], 1)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=x)y", "look-around"),
        (r"(a)\1", "backreferences"),
        ("a*", "empty"),
        ("(", "unclosed group"),
        (r"(?:\w{200}){50}", "bytes"),
    ],
)
def test_pattern_refuses_what_it_cannot_keep(start, pattern, reason):
    with pytest.raises(ContractError, match=rf"`patterns\[1\]` is not valid: .*{reason}"):
        start(Pattern, {"patterns": ["ok", pattern]})


def test_pattern_takes_one_expression_as_plain_text(start):
    guard = start(Pattern, "a{1,3}b")
    assert guard.evaluate(Element("xaab!")).text == "x[removed]!"


@pytest.mark.parametrize(
    ("cls", "config", "message"),
    [
        (Redact, "email, address", "`data` cannot be `address`"),
        (Blocklist, {"words": "a", "policy": "shadow"}, "`policy` works only in `stream` mode"),
        (Blocklist, {"words": "a", "match": "substring"}, "`match` works only in `stream` mode"),
        (Blocklist, {"words": "a", "kinds": "reasoning"}, "`kinds` works only in `stream` mode"),
        (Blocklist, {"words": "a", "homoglyphs": True}, "`homoglyphs` works only in `stream` mode"),
        (Blocklist, {"words": ["a", "\u200b"], "mode": "stream"}, r"`words\[1\]` has no visible"),
        (Pattern, {"patterns": []}, "`patterns` is empty"),
        (Pattern, {"patterns": ["a"], "window": 0}, "too small"),
    ],
)
def test_options_that_do_not_fit_are_refused(start, cls, config, message):
    with pytest.raises(ContractError, match=message):
        start(cls, config)


def test_a_replacement_by_nothing_sends_nothing():
    def quiet(element):
        return Verdict.replace("") if element.text == "b" else True

    flow = torvyn.Flow(["a", "b", "c"], torvyn.filter(quiet))
    assert list(flow.text()) == ["a", "c"]
    assert (flow.statistics.filtered, flow.statistics.live) == (1, 0)


def test_a_refused_pattern_is_found_before_the_flow_starts():
    with pytest.raises(LinkError, match=r"`patterns\[0\]` is not valid") as caught:
        list(torvyn.Flow(["a"], Pattern("(?<=a)b")))
    assert "filter.config" in caught.value.render()


def test_rules_are_made_once_for_all_flows(start):
    first, second = start(Pattern, "a+b"), start(Pattern, "a+b")
    assert first._rules is second._rules
    first.evaluate(Element("aa"))
    assert (first.held_bytes, second.held_bytes) == (2, 0)


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
