"""Markdown for a terminal: the same for every split, nothing lost, no escape let through."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from torvyn.cli.markdown import LIMIT, Markdown

OURS = re.compile(r"\x1b\[[0-9;]*m")
MARKERS = ("*", "**", "***", "_", "__", "`", "```", "~~~", "[", "](", ")", "\\", "#", "## ", "> ")
WORDS = (
    "- ",
    "1. ",
    "---",
    "\n",
    "\n\n",
    " ",
    "a",
    "word",
    "2",
    "x_y",
    "é",
    "日本",
    "👩‍👩‍👧",
    "\x1b[31m",
)
PIECES = st.sampled_from((*MARKERS, *WORDS, "\r"))
TEXTS = st.lists(PIECES, max_size=60).map("".join)


def rendered(parts: Iterable[str]) -> str:
    markdown = Markdown()
    return "".join([*(markdown.feed(part) for part in parts), markdown.finish()])


def letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


@given(TEXTS, st.integers(1, 7))
@example("**bo**\n*unclosed", 1)
@example("```py\nx\n```\n", 2)
def test_any_split_gives_the_same_output(text: str, size: int) -> None:
    parts = [text[at : at + size] for at in range(0, len(text), size)]

    assert rendered(parts) == rendered([text])


@given(TEXTS)
def test_letters_digits_and_line_ends_are_never_lost(text: str) -> None:
    text = "".join(character for character in text if character not in "\x1b\r")

    shown = OURS.sub("", rendered([text]))

    assert letters(shown) == letters(text)
    assert shown.count("\n") == text.count("\n")


@given(st.lists(PIECES | st.characters(), max_size=60).map("".join))
def test_no_control_character_of_the_text_gets_out(text: str) -> None:
    shown = OURS.sub("", rendered(text))

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)


@given(TEXTS)
def test_styles_are_off_at_the_end_and_at_every_line_end(text: str) -> None:
    for line in rendered([text]).split("\n"):
        codes = OURS.findall(line)
        assert not codes or codes[-1] == "\x1b[0m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# Title", "\x1b[1;4mTitle\x1b[0m"),
        ("### Sub", "\x1b[1mSub\x1b[0m"),
        ("a **b** c", "a \x1b[1mb\x1b[0m c"),
        ("*b*", "\x1b[3mb\x1b[0m"),
        ("__b__ _c_", "\x1b[1mb\x1b[0m \x1b[3mc\x1b[0m"),
        ("***b***", "\x1b[1;3mb\x1b[0m"),
        ("**a *b* c**", "\x1b[1ma \x1b[0m\x1b[1;3mb\x1b[0m\x1b[1m c\x1b[0m"),
        ("`x*y*`", "\x1b[36mx*y*\x1b[0m"),
        ("``a`b``", "\x1b[36ma`b\x1b[0m"),
        ("- one\n  * two", "• one\n  • two"),
        ("10. ten", "10. ten"),
        ("> said", "\x1b[2m│ \x1b[0msaid"),
        ("[t](http://x/y)", "\x1b[4mt\x1b[0m\x1b[2m (http://x/y)\x1b[0m"),
        ("```c\n*p* = `1`;\n```\n*a*", None),
        (r"\*a\*", "*a*"),
    ],
)
def test_markers_become_styles(text: str, shown: str | None) -> None:
    fenced = "\x1b[2m```c\x1b[0m\n\x1b[36m*p* = `1`;\x1b[0m\n\x1b[2m```\x1b[0m\n\x1b[3ma\x1b[0m"

    assert rendered([text]) == (shown or fenced)


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4",
        "2*3*4",
        "2**10 and 3**2",
        "snake_case_name",
        "*no end",
        "a [1] b",
        "a [x] (y)",
        "`no end",
        "#hashtag",
        "-5 degrees",
        "1.5 l",
        "a * b",
        "****",
        "C:\\new\\x",
    ],
)
def test_what_is_no_marker_is_left_alone(text: str) -> None:
    assert rendered([text]) == text


def test_words_leave_as_they_come_and_an_open_span_waits_a_bounded_time() -> None:
    markdown = Markdown()

    assert markdown.feed("Hello the") == "Hello the"
    assert markdown.feed("re *never") == "re "
    assert markdown.feed(" closed" * LIMIT).startswith("*never closed")


def test_an_escape_is_shown_and_not_obeyed() -> None:
    assert rendered(["\x1b]0;owned\x07 \x9b31m"]) == "\\x1b]0;owned\\x07 \\x9b31m"
