"""`tools/record_demo.py`: what a terminal shows becomes a picture, and nothing else does."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import record_demo  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str, kind: str) -> list[str]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}text")
    return ["".join(each.itertext()) for each in found if each.get("class") == kind]


def shown(*pieces: str) -> list[str]:
    terminal = record_demo.Terminal()
    for at, piece in enumerate(pieces):
        terminal.feed(piece, at)
    return [row.text for row in terminal.rows]


def test_a_line_that_is_rewritten_shows_its_last_text() -> None:
    assert shown("10 of 20\r\x1b[K20 of 20\r\n", "done\r\n") == ["20 of 20", "done", ""]
    assert shown("a long line\rshort") == ["shortg line"]


def test_a_sequence_may_arrive_in_pieces() -> None:
    assert shown("one\x1b", "[", "2Ktwo\x1b[3", "1mred") == ["   twored"]


def test_cursor_movements_and_titles_leave_no_marks() -> None:
    assert shown("a\r\nb\x1b[1A\rA\x1b]0;title\x07\x1b[?25l\x1b[1B") == ["A", "b"]
    assert shown("one\r\ntwo\x1b[1A\r\x1b[J") == [""]


def test_a_long_line_continues_in_the_next_row() -> None:
    assert shown("x" * (record_demo.COLUMNS + 1)) == ["x" * record_demo.COLUMNS, "x"]


def test_colours_become_classes() -> None:
    terminal = record_demo.Terminal()
    terminal.feed("\x1b[1;32mok\x1b[0m <fine>", 0)

    picture = record_demo.render("c", terminal.rows, 1.0, "machine")
    assert '<tspan class="bold green">ok</tspan> &lt;fine&gt;' in picture


def test_a_line_has_the_time_at_which_it_changed_last() -> None:
    terminal = record_demo.Terminal()
    terminal.feed("building: 1 s", 1.0)
    terminal.feed("\rbuilding: done\r\n", 61.2)
    terminal.feed("ready\r\n", 61.4)

    picture = record_demo.render("make demo", terminal.rows, 61.5, "machine")
    assert texts(picture, "line") == ["building: done", "ready"]
    assert texts(picture, "time") == ["1 min 1 s"]


def test_a_command_is_recorded_at_a_terminal(tmp_path: Path) -> None:
    picture = tmp_path / "out.svg"
    command = ["test", "-t", "1", "&&", "echo", "terminal"]

    assert record_demo.main(["--output", str(picture), "--folder", str(tmp_path), *command]) == 0
    assert texts(picture.read_text(), "line") == ["terminal"]
    assert texts(picture.read_text(), "command") == ["$ test -t 1 && echo terminal"]


def test_a_command_that_fails_is_not_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record_demo.main(["--output", str(tmp_path / "out.svg"), "exit", "3"]) == 1
    assert "ended with 3" in capsys.readouterr().err
    assert not (tmp_path / "out.svg").exists()


def test_the_stored_recording_ends_with_the_output_of_the_example() -> None:
    expected = (ROOT / "examples/token-streaming/expected.txt").read_text().split("\n")
    lines = texts((ROOT / "docs/pictures/demo.svg").read_text(), "line")

    output = [line for line in expected if line]
    assert lines[-len(output) :] == output
