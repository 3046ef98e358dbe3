"""`console`, `collect` and `null`."""

import io
import os
import sys

import pytest

from torvyn import Element, End, Fatal, Unavailable
from torvyn.components import Collect, Console, Null


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_console_prints_each_element_at_once(start, capfd):
    sink = start(Console)
    sink.push(Element("a"))
    assert capfd.readouterr().out == "a\n"


def test_console_has_a_prefix_and_an_end(start, capfd):
    start(Console, {"prefix": "> ", "end": "|"}).push(Element("a"))
    start(Console, "* ").push(Element("b"))
    assert capfd.readouterr().out == "> a|* b\n"


def test_console_shows_bad_bytes_as_replaced(start, capfd):
    start(Console).push(Element(b"a\xff"))
    assert capfd.readouterr().out == "a\ufffd\n"


CONTROLS = "\x1b]0;owned\x07\x00\r\x7f\x9b2J \t\nend"


def test_console_shows_control_characters_on_a_terminal(start, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    start(Console).push(Element(CONTROLS))
    shown = r"\x1b]0;owned\x07\x00\x0d\x7f\x9b2J " + "\t\nend\n"
    assert terminal.getvalue() == shown


def test_console_passes_control_characters_on_in_a_pipe(start, monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    start(Console).push(Element(CONTROLS))
    assert pipe.getvalue() == CONTROLS + "\n"


def test_console_escapes_what_the_encoding_of_the_output_lacks(start, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    start(Console).push(Element("é"))
    assert raw.getvalue() == b"\\xe9\n"


def test_console_stops_the_flow_when_nobody_reads(start, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(Fatal) as caught:
        start(Console).push(Element("a"))
    assert isinstance(caught.value.__cause__, BrokenPipeError)
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_console_without_standard_output_says_so(start, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(Unavailable, match="standard output is closed"):
        start(Console)


def test_collect_keeps_elements_and_the_end(start):
    sink = start(Collect)
    elements = [Element("a", sequence=1), Element("b", sequence=2)]
    for element in elements:
        assert sink.push(element) is None
    sink.complete(End("length"))
    assert sink.elements == elements
    assert sink.texts == ["a", "b"]
    assert sink.end == End("length")


def test_collect_can_be_used_before_a_flow_starts_and_begins_anew_with_it():
    sink = Collect()
    sink.push(Element("a"))
    assert sink.texts == ["a"]
    sink.init("")
    assert (sink.texts, sink.count, sink.end) == ([], 0, None)


def test_collect_keeps_the_first_up_to_its_limit_and_counts_the_rest(start):
    sink = start(Collect, {"limit": 2})
    for text in "abcd":
        sink.push(Element(text))
    assert sink.texts == ["a", "b"]
    assert sink.count == 4


def test_null_takes_everything(start):
    assert start(Null).push(Element(b"\xff")) is None
