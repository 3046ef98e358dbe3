"""JSON on a terminal: it means what it says, and the terminal obeys nothing in it."""

from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._cli.screen import Screen
from torvyn._io.safe_text import BIDI_CONTROLS, LINE_SEPARATORS, escape_json
from torvyn._observe.logs import JsonFormatter, Redactor
from torvyn.errors import Diagnostic
from torvyn.protocol.encoder import Encoder

OBEYED = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0), *BIDI_CONTROLS, *LINE_SEPARATORS)))
HOSTILE = "a" + "".join(sorted(OBEYED)) + "é\U0001f600"
ROOT = Path(__file__).parents[2] / "python/torvyn"

TEXTS = st.text(st.one_of(st.sampled_from(sorted(OBEYED)), st.characters()), max_size=20)
VALUES = st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))


def obeyed(text: str) -> set[str]:
    """Line ends stand between the values."""
    return OBEYED.intersection(text) - {"\n"}


@given(VALUES, st.sampled_from([None, 2]))
def test_escaped_json_means_the_same_and_has_no_control_characters(
    value: Any, indent: int | None
) -> None:
    text = escape_json(json.dumps(value, ensure_ascii=False, indent=indent))

    assert json.loads(text) == value
    assert obeyed(text) == set()
    text.encode()


WRITERS = {
    "document": lambda screen: screen.document({"title": HOSTILE}),
    "json": lambda screen: screen.json({"title": HOSTILE}),
    "problems": lambda screen: screen.problems([Diagnostic("a.b", HOSTILE, None, HOSTILE)], 2),
    "frame": lambda screen: screen.frame(
        Encoder("torvyn", "lines", id="1", flow=HOSTILE, created=0, epoch="0", choices=1).start()
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_whatever_a_command_writes_as_json_is_escaped(
    monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    streams = {name: io.TextIOWrapper(io.BytesIO(), "utf-8") for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)

    WRITERS[writer](Screen("json"))

    written = b"".join(stream.buffer.getvalue() for stream in streams.values()).decode()  # type: ignore[attr-defined]
    assert obeyed(written) == set()
    assert HOSTILE in texts(json.loads(written))


def texts(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        each = value.values() if isinstance(value, dict) else value
        return [text for inner in each for text in texts(inner)]
    return [value] if isinstance(value, str) else []


def test_a_log_record_as_json_is_escaped() -> None:
    record = logging.makeLogRecord({"msg": HOSTILE, "title": HOSTILE})

    line = JsonFormatter(Redactor()).format(record)

    assert obeyed(line) == set()
    assert json.loads(line)["title"] == HOSTILE


def test_only_the_screen_writes_json_that_is_not_ascii() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "_cli").rglob("*.py")
        if "ensure_ascii=False" in path.read_text()
    }

    # A conversation is a file, which `chat` reads.
    assert found == {"_cli/screen.py", "_cli/conversation.py"}
