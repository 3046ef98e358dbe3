"""Markdown tables on a terminal: aligned, within the width, nothing lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._cli.terminal.markdown import Markdown
from torvyn._cli.terminal.table import MAX_BUFFERED_ROWS
from torvyn._cli.terminal.width import display_width

CELLS = st.text(st.sampled_from("ab 日é"), max_size=20)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8)


def drawn(text: str, columns: int = 80) -> list[str]:
    markdown = Markdown(lambda: columns, has_styles=False)
    return (markdown.feed(text) + markdown.finish()).split("\n")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "| a | bcd |\n|---|---|\n| ef | g |\n",
            ["a  │ bcd", "───┼────", "ef │ g"],
        ),
        (
            "| a | b | c |\n|:--|:-:|--:|\n| xxx | yyy | zzz |\n",
            ["a   │  b  │   c", "────┼─────┼────", "xxx │ yyy │ zzz"],
        ),
        (
            "| 日本 | b |\n|--|--|\n| a | ü |",
            ["日本 │ b", "─────┼──", "a    │ ü"],
        ),
        ("| a \\| b | c |\n|---|---|", ["a | b │ c", "──────┼──"]),
        ("| a | b |\n|---|---|\n| c |", ["a │ b", "──┼──", "c │ "]),
        ("| a | b |\n|---|---|\n| c | d | e |", ["a │ b", "──┼──────", "c │ d | e"]),
        ("| a |\n|---|\n| b<br>c |\n| d |", ["a", "─", "b", "c", "─", "d"]),
        ("- x\n  | a |\n  |---|\n  | b |", ["• x", "  a", "  ─", "  b"]),
        ("> | a |\n> |---|\n> | b |\nc", ["│ a", "│ ─", "│ b", "c"]),
        ("| a | b |\nno table", ["| a | b |", "no table"]),
        ("| a | b |\n|---|", ["| a | b |", "|---|"]),
        ("| a | b |\n\nx", ["| a | b |", "", "x"]),
        ("t:\n| a |\n|---|\nend", ["t:", "a", "─", "end"]),
    ],
)
def test_tables_are_drawn_in_columns(text: str, lines: list[str]) -> None:
    assert [line.rstrip() for line in drawn(text)] == [line.rstrip() for line in lines]


def test_cells_have_styles_and_the_head_is_bold() -> None:
    markdown = Markdown(lambda: 80)

    output = markdown.feed("| a | b |\n|---|---|\n| `c` | **d** |\n\n")

    # The progress mark of a table, and the return to the beginning of its line.
    assert output.startswith("\x1b[2m…\x1b[0m\r\x1b[1ma\x1b[0m\x1b[2m │ \x1b[0m\x1b[1mb\x1b[0m\n")
    assert output.endswith("\n\x1b[36mc\x1b[0m\x1b[2m │ \x1b[0m\x1b[1md\x1b[0m\n\n")


def test_long_cells_wrap_in_their_column_and_rows_stay_apart() -> None:
    text = "| n | note |\n|---|---|\n| 1 | one two three four |\n| 2 | x |"

    assert [line.rstrip() for line in drawn(text, 16)] == [
        "n │ note",
        "──┼─────────────",
        "1 │ one two",
        "  │ three four",
        "──┼─────────────",
        "2 │ x",
    ]


def test_where_columns_do_not_fit_each_cell_has_its_line() -> None:
    text = "| name | size | place |\n|---|---|---|\n| first | 1 | here |\n| second | 2 | there |"

    assert drawn(text, 20) == [
        "• name: first",
        "  size: 1",
        "  place: here",
        "• name: second",
        "  size: 2",
        "  place: there",
    ]


def test_a_long_table_does_not_wait_for_its_end() -> None:
    markdown = Markdown(lambda: 80)
    markdown.feed("| a |\n|---|\n")

    assert markdown.feed("| b |\n" * (MAX_BUFFERED_ROWS - 1)) == ""
    assert markdown.feed("| b |\n").count("b") == MAX_BUFFERED_ROWS
    assert markdown.feed("| c |\n") == "c\n"


@given(ROWS, st.sampled_from((24, 40, 80)))
def test_no_line_is_wider_than_the_terminal_and_no_letter_is_lost(
    rows: list[tuple[str, str, str]], columns: int
) -> None:
    table = "".join(f"|{'|'.join(row)}|\n" for row in rows)

    lines = drawn(f"| h | h | h |\n|---|:-:|--:|\n{table}", columns)

    assert max(map(display_width, lines)) <= columns
    for letter in "ab日é":
        assert "".join(lines).count(letter) == table.count(letter)
    bars = {
        tuple(display_width(line[: found.start()]) for found in re.finditer("[│┼]", line))
        for line in lines
    }
    assert len(bars) == 1
