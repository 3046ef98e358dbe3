"""Sentences through the Python border: the named cases, and the laws for every split."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.text import SentenceSplitter

PARTS = [
    *(".", "!", "?", "...", "…", "。", "！", "？", "।", " ", " ", "\n", "\n\n", '"', "'", "(", ")"),
    *("「", "」", "*", "<b>", "<", "`", "```", "Dr", "e.g", "U.S", "No", "etc", "J", "1", "3.14"),
    *("The", "she", "word", "你好", "と", "😀", "-", "—", ",", "example.com"),
    *(
        "[1]",
        "1.",
        "2.",
        "1)",
        "2)",
        "•",
        "# ",
        "« ",
        " »",
        "է:",
        ";",
        "der",
        "und",
        "Mai",
        "т",
        "д",
    ),
]
texts = st.lists(st.sampled_from(PARTS), max_size=50).map("".join) | st.text()
lengths = st.fixed_dictionaries(
    {
        "first_min": st.integers(0, 12),
        "min": st.integers(0, 12),
        "max": st.just(0) | st.integers(1, 30),
        "language": st.sampled_from(["auto", "en", "de", "sk", "ru"]),
    }
)


def sentences(pieces: list[str], splitter: SentenceSplitter | None = None) -> list[str]:
    splitter = splitter or SentenceSplitter()
    out = [sentence for piece in pieces for sentence in splitter.put(piece)]
    rest = splitter.finish()
    return out if rest is None else [*out, rest]


def pieces_of(text: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    start = 0
    for size in cycle(sizes):
        if start >= len(text):
            return pieces
        pieces.append(text[start : start + size])
        start += size
    return pieces


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Dr. Smith paid $29. ", "Next."),
        ("See e.g. section 3.1. ", "Then stop."),
        ("My birthday is Jan 1, 1980. ", "Another sentence."),
        ("これはペンです。", "次。"),
        ("Wait... what? ", '"Yes!" she said.'),
        ("Visit https://example.com/a?b=1. ", "J. R. Tolkien did."),
        ("He left the U.S. ", "The end."),
        ("Use `a. B! c` now!😀 ", "ok"),
        ("A title\n\n", "Its text"),
    ],
)
def test_two_sentences_are_told_apart(first: str, second: str) -> None:
    assert sentences([first + second]) == [first, second]
    assert sentences(list(first + second)) == [first, second]


@given(texts, lengths, st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_every_split_gives_the_same_sentences_and_loses_nothing(
    text: str, options: Any, sizes: list[int]
) -> None:
    whole = sentences([text], SentenceSplitter(**options))
    assert "".join(whole) == text
    assert sentences(pieces_of(text, sizes), SentenceSplitter(**options)) == whole


@pytest.mark.promise("tokens.memory")
@given(texts)
def test_no_more_is_held_than_twice_the_longest_sentence(text: str) -> None:
    splitter = SentenceSplitter()
    out, peak = [], 0
    for character in text:
        out += splitter.put(character)
        peak = max(peak, splitter.held_bytes)
    out.append(splitter.finish() or "")
    assert peak <= 2 * max(len(sentence.encode()) for sentence in out)


@pytest.mark.promise("tokens.blank-rest", "tokens.boundaries")
@given(st.lists(st.text(alphabet="ab .!?\n", max_size=4), max_size=20))
def test_simple_mode_is_defined_by_tokens(tokens: list[str]) -> None:
    expected, buffer = [], ""
    for token in tokens:
        buffer += token
        if token.rstrip().endswith((".", "!", "?")):
            expected.append(buffer.strip())
            buffer = ""
    expected += [buffer.strip()] if buffer.strip() else []

    assert sentences(tokens, SentenceSplitter("simple")) == expected


def test_lengths_merge_short_sentences_and_cut_long_ones() -> None:
    assert sentences(["Hi. Yes. No. Go."], SentenceSplitter(first_min=5, min=3)) == [
        "Hi. Yes. ",
        "No. ",
        "Go.",
    ]
    assert sentences(["one two three four"], SentenceSplitter(max=10)) == ["one two ", "three four"]


def test_idle_time_lets_everything_held_go() -> None:
    splitter = SentenceSplitter()
    assert splitter.put("Half a sent") == []
    assert splitter.flush_idle() == "Half a sent"
    assert splitter.flush_idle() is None
    assert splitter.put("ence. Next") == ["ence. "]


def test_clear_forgets_what_is_held() -> None:
    splitter = SentenceSplitter()
    splitter.put("```never closed")
    assert splitter.held_bytes == len("```never closed")
    splitter.clear()
    assert splitter.held_bytes == 0
    assert sentences(["One. Two."], splitter) == ["One. ", "Two."]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match='`simple` or `normal`, not "loud"'):
        SentenceSplitter("loud")  # type: ignore[arg-type]


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match=r'`auto` or one of am, ar, .* not "xx"'):
        SentenceSplitter(language="xx")
