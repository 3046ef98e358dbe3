"""Newlines, escapes and zeros in tokens: no forged line in a log, no raw escape on a terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from faulty import GUESTS, Part

import torvyn
from torvyn._observe.logs import show_logs

EVIL = "x\n[torvyn] error: forged\r\x1b[2J\x1b]0;title\x07\x00\x9b31m\u2028[torvyn] forged\x7f"


def log_of(format: str, text: str) -> str:
    def refuse(element: torvyn.Element) -> str:
        raise torvyn.InvalidInput(f"not good: {element.text}")

    stream = io.StringIO()
    with show_logs(format, logging.INFO, stream=stream):
        list(torvyn.Flow([text], torvyn.processor(refuse), on_error="skip"))
    return stream.getvalue()


def has_no_controls(text: str) -> bool:
    controls = {chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x2028)} - {"\n", "\t"}
    return controls.isdisjoint(text)


def test_the_log_for_people_shows_no_forged_line() -> None:
    lines = log_of("human", EVIL).split("\n")

    assert lines[0].partition(" ")[2].startswith("[torvyn] warning: node `processor` failed")
    assert not any(line and not line.startswith("  ") for line in lines[1:])
    assert has_no_controls("\n".join(lines))


def test_the_log_for_programs_is_one_line_a_record() -> None:
    text = log_of("json", EVIL)

    assert has_no_controls(text)
    assert json.loads(text)["message"].endswith(EVIL)


def test_what_a_guest_prints_without_a_grant_is_escaped_in_the_log(part: Part) -> None:
    stream = io.StringIO()
    with show_logs("human", logging.INFO, stream=stream):
        logging.getLogger("torvyn.sandbox").info("%s: %s", "guest", EVIL)

    assert has_no_controls(stream.getvalue())


def on_a_terminal(command: list[str], folder: Path) -> str:
    """What a terminal is sent, on both channels."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=folder, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        data = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:
                break
            data += more
        process.wait(30)
    os.close(ours)
    return data.decode()


HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'


@pytest.mark.parametrize("stage", ["json-map", "sentence"])
def test_a_terminal_gets_no_raw_escape(tmp_path: Path, stage: str) -> None:
    (tmp_path / "in.txt").write_text("a\x1b[2J\x9b31m\x07b.\n")
    nodes = {"in": "lines", "stage": stage, "out": "console"}
    text = HEAD + "".join(f'[flow.main.nodes.{k}]\ncomponent = "{v}"\n' for k, v in nodes.items())
    text = text.replace('"lines"\n', '"lines"\nconfig = { path = "in.txt" }\n')
    for source, target in (("in", "stage"), ("stage", "out")):
        text += f'[[flow.main.edges]]\nfrom = "{source}"\nto = "{target}"\n'
    (tmp_path / "Torvyn.toml").write_text(text)
    env = [sys.executable, "-m", "torvyn", "run", "--color", "never"]

    shown = on_a_terminal(env, tmp_path)

    assert has_no_controls(shown.replace("\r\n", "\n"))
    assert "\\x1b[2J" in shown or "json" in shown.lower()


def test_the_names_in_a_guests_backtrace_are_one_line(part: Part, tmp_path: Path) -> None:
    wasm = GUESTS["chaos"].read_bytes()
    assert wasm.count(b"\x04does") == 1
    file = tmp_path / "chaos.wasm"
    file.write_bytes(wasm.replace(b"\x04does", b"\x04d\n\x1b["))
    from torvyn._sandbox.component import guest_class

    with pytest.raises(torvyn.errors.Internal) as caught:
        list(torvyn.Flow(["trap"], guest_class(file, "chaos")()))

    assert "  0: d\ufffd\ufffd[" in str(caught.value)
