"""Laws of guards: for every split of a text, what leaves is the guard applied to the whole, and
nothing of a match leaks. The oracles look at the whole text at once."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torvyn import Element
from torvyn.components.filter_blocklist import Blocklist
from torvyn.components.filter_pattern import Pattern
from torvyn.components.filter_redact import Redact

PERSONAL = (
    "mail jo.doe@mail.example.com and 4111 1111 1111 1111, or call +49 30 1234 5678; "
    "GB29 NWBK 6016 1331 9268 19, key ghp_0123456789abcdefghijABCDEFGHIJ012345 end"
)
REDACTED = "mail [email] and [card], or call [phone]; [iban], key [api-key] end"


def guarded(guard, pieces):
    out = []
    for piece in pieces:
        verdict = guard.evaluate(Element(piece))
        out.append(piece if verdict is True else verdict.text or "")
        if verdict is not True and verdict.kind == "block":
            return "".join(out)
    rest = guard.flush()
    return "".join(out) + "".join(one.data for one in rest if isinstance(rest, list))


def started(cls, config):
    guard = cls()
    guard.init(config)
    return guard


def splits(text):
    """Every way to cut a short text."""
    for cuts in range(1 << max(len(text) - 1, 0)):
        borders = [at for at in range(1, len(text)) if cuts >> (at - 1) & 1]
        yield [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]


def folded_out(text, words):
    """Occurrences replaced, whatever their case; those that overlap are one."""
    spans = sorted(
        (at, at + len(word))
        for word in words
        for at in range(len(text))
        if text[at : at + len(word)].casefold() == word.casefold()
    )
    out, end = "", 0
    for start, stop in spans:
        if start >= end:
            out += text[end:start] + "*"
        end = max(end, stop)
    return out + text[end:]


@settings(max_examples=60, deadline=None)
@given(st.text("abAB ", max_size=8), st.lists(st.text("ab", min_size=1, max_size=3), min_size=1))
@example("a ab bab", ["ab", "bab"])
def test_a_blocked_word_does_not_leak_in_any_split(text, words):
    config = {"words": words, "mode": "stream", "match": "substring"}
    config |= {"action": "replace", "replacement": "*"}
    guard = started(Blocklist, config)
    expected = folded_out(text, words)
    for pieces in splits(text):
        assert guarded(guard, pieces) == expected


@pytest.mark.parametrize(
    ("word", "text", "expected"),
    [
        ("straße", "STRASSE!", "***!"),
        ("İ", "i̇ i", "*** i"),
        ("敏感", "这敏感词", "这***词"),
        ("cafe", "cafe\u0301", "cafe\u0301"),
        ("ab cd", "AB CD", "***"),
    ],
)
def test_whole_words_are_found_in_every_split_in_every_script(word, text, expected):
    config = {"words": [word], "mode": "stream", "action": "replace"}
    guard = started(Blocklist, config)
    for pieces in splits(text):
        assert guarded(guard, pieces) == expected


@settings(max_examples=60, deadline=None)
@given(st.text("ab1 -", max_size=9))
def test_a_pattern_finds_in_every_split_what_a_search_over_the_whole_finds(text):
    patterns = [r"ab+1", r"\ba-+", r"[b1]{3}"]
    guard = started(Pattern, {"patterns": patterns, "replacement": "*", "window": 20})
    expected = re.sub("|".join(f"(?:{pattern})" for pattern in patterns), "*", text)
    for pieces in splits(text):
        assert guarded(guard, pieces) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, len(PERSONAL) - 1), unique=True))
def test_personal_data_does_not_leak_in_any_split(borders):
    borders.sort()
    pieces = [PERSONAL[a:b] for a, b in zip([0, *borders], [*borders, len(PERSONAL)], strict=True)]
    assert guarded(started(Redact, ""), pieces) == REDACTED


@settings(max_examples=100, deadline=None)
@given(st.text("x-z", max_size=60), st.integers(1, 20))
def test_a_match_that_fits_the_window_never_leaks(text, window):
    # The replacement keeps apart what stood on both sides of a match.
    guard = started(Pattern, {"patterns": ["x[^z]*z"], "replacement": "|", "window": window})
    left = guarded(guard, text)
    shortest = re.findall(r"x[^xz|]*z", left)
    assert all(len(match) > window for match in shortest)


@settings(max_examples=100, deadline=None)
@given(st.text("abc@. 1-", max_size=40), st.sampled_from(["hold", "optimistic", "shadow"]))
def test_all_policies_find_the_same_when_the_text_comes_whole(text, policy):
    config = {"patterns": ["ab", "c@.", r"\b1"], "policy": policy}
    guard, hold = started(Pattern, config), started(Pattern, {**config, "policy": "hold"})
    guarded(hold, [text])
    guarded(guard, [text])
    assert guard.matches == hold.matches
