"""Markdown for a terminal: independent of splits, nothing lost, control characters escaped."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from torvyn._cli.terminal.glyphs import ASCII
from torvyn._cli.terminal.inline_markdown import LIMIT
from torvyn._cli.terminal.markdown import Markdown

# Styles, and the return over the progress mark of an incomplete table.
OURS = re.compile(r"\x1b\[[0-9;]*m|…(?:\x1b\[0m)?\r")
MARKERS = ("*", "**", "***", "_", "__", "~~", "`", "```", "~~~", "[", "](", ")", "\\", "#", "## ")
BLOCKS = ("> ", "- ", "1. ", "---", "- [ ] ", "| a | b |\n", "|---|--:|\n", "| ", "|", "  ", "\t")
WORDS = ("\n", "\n\n", " ", "a", "word", "2", "x_y", "é", "日本", "。", "👩‍👩‍👧", "\x1b[31m")
PIECES = st.sampled_from((*MARKERS, *BLOCKS, *WORDS, "\r"))
TEXTS = st.lists(PIECES, max_size=60).map("".join)
WIDTHS = st.sampled_from((12, 30, 80))


def rendered(parts: Iterable[str], columns: int = 80, **options: Any) -> str:
    markdown = Markdown(lambda: columns, **options)
    return "".join([*(markdown.feed(part) for part in parts), markdown.finish()])


def indented(*lines: str) -> list[str]:
    return [f"  {line}" for line in lines]


def letters(text: str) -> Counter[str]:
    return Counter(character for character in text if character.isalnum())


@given(TEXTS, st.integers(1, 7), WIDTHS, st.booleans())
@example("**bo**\n*unclosed", 1, 80, True)
@example("```py\nx\n```\n", 2, 80, True)
@example("| a | b |\n|---|---|\n| c | d |", 3, 80, False)
def test_any_split_gives_the_same_output(
    text: str, size: int, columns: int, has_styles: bool
) -> None:
    parts = [text[at : at + size] for at in range(0, len(text), size)]

    whole = rendered([text], columns, has_styles=has_styles)

    assert rendered(parts, columns, has_styles=has_styles) == whole


@given(TEXTS, WIDTHS, st.booleans())
def test_letters_and_digits_are_never_lost(text: str, columns: int, has_styles: bool) -> None:
    # Boxes and escapes become other characters.
    text = text.replace("\x1b", "").replace("\r", "").replace("[x]", "")

    output = OURS.sub("", rendered([text], columns, has_styles=has_styles))

    assert letters(text) <= letters(output)


@given(st.lists(PIECES | st.characters(), max_size=60).map("".join), WIDTHS, st.booleans())
def test_control_characters_are_escaped(text: str, columns: int, has_styles: bool) -> None:
    output = OURS.sub("", rendered(text, columns, has_styles=has_styles))

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", output)


@given(TEXTS, WIDTHS)
def test_styles_are_off_at_the_end_and_at_every_line_end(text: str, columns: int) -> None:
    for line in rendered([text], columns).split("\n"):
        codes = re.findall(r"\x1b\[[0-9;]*m", line)
        assert not codes or codes[-1] == "\x1b[0m"


@given(TEXTS, WIDTHS)
def test_without_styles_there_are_no_escape_sequences(text: str, columns: int) -> None:
    assert "\x1b" not in rendered([text], columns, has_styles=False)


@pytest.mark.parametrize(
    ("text", "output"),
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
        ("~~b~~ ~5 ~~6", "\x1b[9mb\x1b[0m ~5 ~~6"),
        ("- [ ] a\n- [x] b\n- [y] c", "• ☐ a\n• ☑ b\n• [y] c"),
        ("1. - a\n2.", "1. • a\n2. "),
        ("* * *\n- - x", f"\x1b[2m{'─' * 40}\x1b[0m\n• • x"),
        ("> - said", "\x1b[2m│ \x1b[0m• said"),
        (r"\*a\*", "*a*"),
    ],
)
def test_markers_become_styles(text: str, output: str) -> None:
    assert rendered([text]) == output


TOP, END = "── c " + "─" * 35, "─" * 40


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("```c\n*p*  = `1`;\n\n\tx\n```\n*a*", [TOP, "*p*  = `1`;", "", "\tx", END, "*a*"]),
        ("```c\nx", [TOP, "x", END]),
        ("```c\nx\n``", [TOP, "x", "``", END]),
        ("~~~ c\n```\n~~~~", [TOP, "```", END]),
        ("````c\n```\n````", [TOP, "```", END]),
        ("- a\n  ```c\n  x\n    y\n  ```\nb", ["• a", *indented(TOP, "x", "  y", END), "b"]),
        ("- ```c\n  x\n  ```", [f"• {TOP}", *indented("x", END)]),
        ("- a\n  ```c\nx\n```", ["• a", *indented(TOP, "x", END)]),
        ("> ```c\n> x\n>\n> ```", [f"│ {TOP}", "│ x", "│ ", f"│ {END}"]),
        ("> ```c\n> x\nafter", [f"│ {TOP}", "│ x", f"│ {END}", "after"]),
        ("```c\n    ```\nx", [TOP, "    ```", "x", END]),
    ],
)
def test_code_is_verbatim_and_framed(text: str, lines: list[str]) -> None:
    assert rendered([text], has_styles=False).split("\n") == lines


def test_long_code_is_left_for_the_terminal_to_break() -> None:
    code = "x = " + "y + " * 50

    assert code in rendered(["```\n", code, "\n```"], 30)


def test_code_has_a_colour_of_its_own_and_its_frame_is_dim() -> None:
    output = rendered(["```c\nx\n```"])

    assert output == f"\x1b[2m{TOP}\x1b[0m\n\x1b[36mx\x1b[0m\n\x1b[2m{END}\x1b[0m"


def test_without_styles_the_marks_stay_and_the_structure_is_drawn() -> None:
    text = "## T\n- **b** \\*\n\n| `a` |\n|---|\n| c |"

    output = rendered([text], has_styles=False)

    assert output == "## T\n• **b** \\*\n\n`a`\n───\nc"


def test_an_encoding_without_drawings_gets_letters() -> None:
    text = "- a\n> b\n\n| c | d |\n|---|---|\n- [x] e"

    output = rendered([text], has_styles=False, glyphs=ASCII)

    assert output == "- a\n| b\n\nc | d\n--+--\n- [x] e"


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
        "a ****",
        "C:\\new\\x",
    ],
)
def test_text_that_is_not_a_marker_is_unchanged(text: str) -> None:
    assert rendered([text]) == text


def test_words_leave_as_they_come_and_an_open_span_waits_a_bounded_time() -> None:
    markdown = Markdown()

    assert markdown.feed("Hello the") == "Hello the"
    assert markdown.feed("re *never") == "re"
    assert markdown.feed(" closed" * LIMIT).startswith(" *never closed")


def test_escape_sequences_in_the_text_are_escaped() -> None:
    assert rendered(["\x1b]0;owned\x07 \x9b31m"]) == "\\x1b]0;owned\\x07 \\x9b31m"


MANY = ("- ", "> ", "*", "`a ", "[a", "| a ", "1. ", "~~", " ", "| a |\n|-|\n", "word ")


@pytest.mark.parametrize("mark", MANY)
def test_the_cost_per_character_is_constant(mark: str) -> None:
    text = mark * 2000

    # Ordinary words cost 34 calls per character.
    assert calls(text) < 60 * len(text)


def calls(text: str) -> int:
    """The number of function calls that rendering takes."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        rendered(text)
    finally:
        sys.setprofile(None)
    return count
