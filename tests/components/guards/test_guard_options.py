"""The options of guards: what each matches, and which options are errors."""

import pytest
from guard_forms import STREAM, all_forms, run_guard

import torvyn
from torvyn import Element
from torvyn.components import Blocklist, Pattern, Redact
from torvyn.errors import ContractError, LinkError


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
@all_forms
def test_a_disguised_word_is_taken_out_and_the_original_text_leaves_around_it(form, disguise):
    guard = form(Blocklist)(STREAM)
    texts, _ = run_guard(guard, [*f"\ufeffThe_{disguise}_\uff49\uff53  it\u200b."])
    assert "".join(texts) == "\ufeffThe_***_\uff49\uff53  it\u200b."


def test_words_of_a_phrase_may_have_any_white_space_between_them():
    guard = Blocklist({**STREAM, "words": ["top secret"]})
    texts, _ = run_guard(guard, ["top", "  ", "\u00a0\n", "secret", " top_secret"])
    assert "".join(texts) == "*** top_secret"


def test_homoglyphs_are_an_option():
    cyrillic = "\u0455\u0435\u0441r\u0435t"
    assert "".join(run_guard(Blocklist(STREAM), [cyrillic])[0]) == cyrillic
    guard = Blocklist({**STREAM, "homoglyphs": True})
    assert "".join(run_guard(guard, ["a ", cyrillic[:3], cyrillic[3:], "."])[0]) == "a ***."


def test_element_mode_compares_tokens_as_they_are():
    tokens = ["Secret", " secret ", "sec\u200bret", "_secret_", "\uff53ecret"]
    texts, _ = run_guard(Blocklist({"words": ["secret"]}), tokens)
    assert texts == ["sec\u200bret", "_secret_", "\uff53ecret"]


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
        (Pattern, {"patterns": ["a"], "kinds": ["Text"]}, "`kinds` has `Text`"),
        (Pattern, {"patterns": ["a"], "kinds": ["text", "resoning"]}, "`kinds` has `resoning`"),
        (Redact, {"kinds": "tool-call"}, "`kinds` has `tool-call`"),
        (Blocklist, {"words": ["a", "\u200b"], "mode": "stream"}, r"`words\[1\]` has no visible"),
        (Pattern, {"patterns": []}, "`patterns` is empty"),
        (Pattern, {"patterns": ["a"], "window": 0}, "too small"),
    ],
)
def test_options_that_do_not_fit_are_refused(start, cls, config, message):
    with pytest.raises(ContractError, match=message):
        start(cls, config)


def test_flows_may_have_kinds_of_their_own(start):
    guard = start(Pattern, {"patterns": ["a"], "kinds": ["thought", "tool_result", "tool_call"]})
    replaced = guard.evaluate(Element("a", attributes={"kind": "thought"}))
    assert repr(replaced) == "Verdict.replace([Output('[removed]')])"


def test_a_refused_pattern_is_found_before_the_flow_starts():
    with pytest.raises(LinkError, match=r"`patterns\[0\]` is not valid") as caught:
        list(torvyn.Flow(["a"], Pattern("(?<=a)b")))
    assert "filter.config" in caught.value.render()


def test_rules_are_made_once_for_all_flows(start):
    first, second = start(Pattern, "a+b"), start(Pattern, "a+b")
    assert first._rules is second._rules
    first.evaluate(Element("aa"))
    assert (first.held_bytes, second.held_bytes) == (2, 0)
