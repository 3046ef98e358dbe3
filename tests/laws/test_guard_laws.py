"""Laws of guards: for every split of a text, what leaves is the guard applied to the whole, and
nothing of a match leaks. The oracles check the whole text at once."""

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scale import sample

from torvyn import Element
from torvyn.components import Blocklist, Pattern, Redact

PERSONAL = (
    "mail jo.doe@mail.example.com and 4111 1111 1111 1111, or call +49 30 1234 5678; "
    "GB29 NWBK 6016 1331 9268 19, key ghp_0123456789abcdefghijABCDEFGHIJ012345 end"
)
REDACTED = "mail [email] and [card], or call [phone]; [iban], key [api-key] end"


def guarded(guard, pieces):
    out = []
    for piece in pieces:
        verdict = guard.evaluate(Element(piece))
        if verdict is not True and verdict.kind == "block":
            return "".join(out) + "".join(one.data for one in verdict.text)
        out.append(piece if verdict is True else verdict.text)
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


@settings(max_examples=sample(15, full=60), deadline=None)
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


INVISIBLE = "\u200b\u00ad\u2060\ufe0f\u0000"


def compared(text):
    """The normal form of a text that is whole, each character with the place it comes from."""
    out: list[tuple[str, int]] = []
    for at, char in enumerate(text):
        for one in unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold()):
            if one in INVISIBLE or (one.isspace() and out and out[-1][0] == " "):
                continue
            out.append((" " if one.isspace() else one, at))
    return out


def words_out(text, words):
    """Whole words replaced, as a search over the normal form of the whole finds them."""
    normal = compared(text)
    chars = "".join(char for char, _ in normal)
    gone = [False] * len(text)
    for word in words:
        wanted = "".join(char for char, _ in compared(word))
        # A letter, a digit or a mark on either side makes it another word; `_` does not.
        borders = r"(?<![^\W_\u0301])(?<!\u0301)", r"(?![^\W_]|\u0301)"
        for match in re.finditer(f"(?={borders[0]}({re.escape(wanted)}){borders[1]})", chars):
            first, last = normal[match.start(1)][1], normal[match.end(1) - 1][1]
            gone[first : last + 1] = [True] * (last + 1 - first)
    return "".join(char for char, is_gone in zip(text, gone, strict=True) if not is_gone)


@settings(max_examples=sample(30, full=120), deadline=None)
@given(
    st.text("ab\u00e9e\u0301\uff41AB _.\n\u200b\u00ad", max_size=9),
    st.lists(st.from_regex(r"[ab\u00e9](?:[abe\u0301 _]?[ab\u00e9])?", fullmatch=True), min_size=1),
)
@example("a\u200bB_ \n", ["ab"])
@example("e\u0301 \u00e9", ["\u00e9 e\u0301"])
def test_a_disguised_word_is_found_in_every_split(text, words):
    guard = started(Blocklist, {"words": words, "mode": "stream"})
    expected = words_out(text, words)
    for pieces in splits(text):
        assert guarded(guard, pieces) == expected


@settings(max_examples=sample(50, full=200), deadline=None)
@given(
    st.text("abc_ ", max_size=24),
    st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(st.integers(1, 23), unique=True),
    st.sampled_from(["word", "substring"]),
)
def test_every_policy_counts_the_same_matches_in_every_split(text, words, cuts, match):
    borders = sorted(cut for cut in cuts if cut < len(text))
    pieces = [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]
    counts = set()
    for policy in ("hold", "optimistic", "shadow"):
        config = {"words": words, "mode": "stream", "match": match, "policy": policy}
        guard = started(Blocklist, config)
        left = guarded(guard, pieces)
        counts.add(guard.matches)
        assert guard.exposed_chars == 0 or policy != "hold"
        assert left == text or policy != "shadow"
    assert len(counts) == 1


@settings(max_examples=sample(15, full=60), deadline=None)
@given(st.text("ab1 -", max_size=9))
def test_a_pattern_finds_in_every_split_what_a_search_over_the_whole_finds(text):
    patterns = [r"ab+1", r"\ba-+", r"[b1]{3}"]
    guard = started(Pattern, {"patterns": patterns, "replacement": "*", "window": 20})
    expected = re.sub("|".join(f"(?:{pattern})" for pattern in patterns), "*", text)
    for pieces in splits(text):
        assert guarded(guard, pieces) == expected


@settings(max_examples=sample(50, full=200), deadline=None)
@given(st.lists(st.integers(1, len(PERSONAL) - 1), unique=True))
def test_personal_data_does_not_leak_in_any_split(borders):
    borders.sort()
    pieces = [PERSONAL[a:b] for a, b in zip([0, *borders], [*borders, len(PERSONAL)], strict=True)]
    assert guarded(started(Redact, ""), pieces) == REDACTED


@settings(max_examples=sample(25, full=100), deadline=None)
@given(st.text("x-z", max_size=60), st.integers(1, 20))
def test_a_match_that_fits_the_window_never_leaks(text, window):
    # The replacement keeps apart what stood on both sides of a match.
    guard = started(Pattern, {"patterns": ["x[^z]*z"], "replacement": "|", "window": window})
    left = guarded(guard, text)
    shortest = re.findall(r"x[^xz|]*z", left)
    assert all(len(match) > window for match in shortest)


@settings(max_examples=sample(25, full=100), deadline=None)
@given(st.text("abc@. 1-", max_size=40), st.sampled_from(["hold", "optimistic", "shadow"]))
def test_all_policies_find_the_same_when_the_text_arrives_whole(text, policy):
    config = {"patterns": ["ab", "c@.", r"\b1"], "policy": policy}
    guard, hold = started(Pattern, config), started(Pattern, {**config, "policy": "hold"})
    guarded(hold, [text])
    guarded(guard, [text])
    assert guard.matches == hold.matches
