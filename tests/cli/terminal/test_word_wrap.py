"""Word wrap at the width of a terminal, in columns and not in characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._cli.terminal.markdown import Markdown
from torvyn._cli.terminal.width import clusters, display_width
from torvyn._cli.terminal.word_wrap import SAFE_COLUMNS, Pen, Wrap

FAMILY = "👩‍👩‍👧"
CHARACTERS = st.sampled_from([*"ab -", "日", "。", "「", "é", "e\u0301", FAMILY, "🇩🇪", "❤️", "🏽"])
TEXTS = st.lists(CHARACTERS, max_size=80).map("".join)


def wrapped(text: str, columns: int, pieces: int = 1) -> list[str]:
    pen = Pen(has_styles=False)
    wrap = Wrap(pen, lambda: columns)
    for at in range(0, len(text), pieces):
        wrap.put(text[at : at + pieces])
    wrap.flush()
    return pen.take().split("\n")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("日本語", 6),
        ("ｈｉ", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("👍", 2),
        ("👍🏽", 2),
        (FAMILY, 2),
        ("🇩🇪", 2),
        ("❤", 1),
        ("❤️", 2),
        ("1️⃣", 2),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("a\u200bb", 2),
    ],
)
def test_a_text_takes_the_columns_that_terminals_give_it(text: str, columns: int) -> None:
    assert display_width(text) == columns


@given(TEXTS)
def test_parts_that_stay_together_add_up_to_the_text(text: str) -> None:
    assert "".join(clusters(text)) == text
    assert sum(map(display_width, clusters(text))) == display_width(text)


@given(TEXTS, st.integers(4, 60), st.integers(1, 5))
def test_any_split_gives_the_same_lines_and_loses_nothing_but_spaces(
    text: str, columns: int, pieces: int
) -> None:
    lines = wrapped(text, columns, pieces)

    assert lines == wrapped(text, columns, len(text) or 1)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(st.lists(st.lists(CHARACTERS, max_size=9).map("".join)), st.integers(2 * 9, 60))
def test_no_line_of_words_that_fit_is_wider_than_the_terminal(
    words: list[str], columns: int
) -> None:
    assert max(map(display_width, wrapped(" ".join(words), columns))) <= columns


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("one two", 7, ["one two"]),
        ("one  two", 7, ["one", "two"]),
        ("日本語の文章", 6, ["日本語", "の文章"]),
        ("日本語。文", 6, ["日本", "語。文"]),
        ("日本「語」", 6, ["日本", "「語」"]),
        ("see 日本語", 8, ["see 日本", "語"]),
        (f"{FAMILY} {FAMILY}", 4, [FAMILY, FAMILY]),
        ("한국어 한국어", 8, ["한국어", "한국어"]),
        ("a " + "x" * 12, 8, ["a", "x" * 12]),
        ("x" * 12 + " yes", 8, ["x" * 12 + " yes"]),
    ],
)
def test_lines_break_between_words(text: str, columns: int, lines: list[str]) -> None:
    assert wrapped(text, columns) == lines


def test_a_word_waits_only_near_the_edge() -> None:
    pen = Pen()
    wrap = Wrap(pen, lambda: 40)

    wrap.put("wo")
    assert pen.take() == "wo"
    wrap.put("rd " + "x" * (40 - SAFE_COLUMNS) + " ne")
    assert pen.take() == "rd " + "x" * (40 - SAFE_COLUMNS)
    wrap.put("ar ")
    assert pen.take() == " near"


def test_a_resize_takes_effect_at_the_next_word() -> None:
    columns = 60
    markdown = Markdown(lambda: columns)
    output = markdown.feed("one two three four five six ")

    columns = 12
    output += markdown.feed("seven eight nine") + markdown.finish()

    assert output == "one two three four five six\nseven eight\nnine"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("- one two three four", ["• one two", "  three four"]),
        ("10. one two three", ["10. one two", "    three"]),
        ("  - one two three", ["  • one two", "    three"]),
        ("> one two three", ["│ one two", "│ three"]),
        ("> - one two three", ["│ • one two", "│   three"]),
        ("- [ ] one two three", ["• ☐ one two", "    three"]),
        ("  one two three", ["  one two", "  three"]),
        ("         one two", ["         one", "two"]),
    ],
)
def test_continuation_lines_stand_below_the_text(text: str, lines: list[str]) -> None:
    markdown = Markdown(lambda: 12, has_styles=False)

    assert (markdown.feed(text) + markdown.finish()).split("\n") == lines
