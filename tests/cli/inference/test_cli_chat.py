"""`torvyn chat`, at a terminal and from a pipe."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pseudo_terminal import CTRL_C, CTRL_D, Terminal
from transcript import communicate

from torvyn._cli.conversation import Conversation
from torvyn.errors import UsageError

Start = Callable[..., "subprocess.Popen[str]"]
Open = Callable[..., Terminal]

# Yields its first words, then waits for an hour; reports when it is closed.
ENGINES = """
import asyncio
from pathlib import Path
from torvyn.engine import ChoiceStep, Scripted, Step
from torvyn.errors import InvalidInput

class Slow(Scripted):
    def __init__(self):
        super().__init__(["Once", " upon", " a", 3600.0, " time"])

    async def steps(self, request):
        try:
            async for step in super().steps(request):
                yield step
        finally:
            Path("aborted").touch()

class Full(Scripted):
    async def steps(self, request):
        if len(request.messages) > 2:
            raise InvalidInput("too long", code="engine.context-full")
        async for step in super().steps(request):
            yield step

class Thinker(Scripted):
    def __init__(self):
        super().__init__([("reasoning", "Let me"), ("reasoning", " see"), "It is", " so."])

class Waiting(Scripted):
    async def steps(self, request):
        question = request.messages[-1]["content"]
        yield Step((ChoiceStep(0, text="Well "),))
        if question == "one":
            await asyncio.to_thread(Path("go").read_text)
        yield Step((ChoiceStep(0, text=repr([question]), finish_reason="stop"),))

class Echo(Scripted):
    def __init__(self):
        super().__init__(lambda request, _: [repr([m["content"] for m in request.messages])])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "engines.py").write_text(ENGINES)
    return tmp_path


@pytest.fixture
def chat(open_terminal: Open, folder: Path) -> Open:
    return partial(open_terminal, "chat", cwd=folder)


def piped(start: Start, folder: Path, lines: str, *arguments: object) -> tuple[int, str, str]:
    return communicate(start("chat", *arguments, cwd=folder), lines)


# At a terminal


def test_an_answer_is_rendered_and_its_speed_is_printed(chat: Open) -> None:
    terminal = chat("--engine", "scripted", "-o", "text=Some **bold** \x1b[31m words")
    terminal.ask("Hi")

    assert "Some \x1b[1mbold\x1b[0m \\x1b[31m words\n" in terminal.expect("first token ")
    terminal.expect("tokens/s")
    terminal.expect("> ")
    terminal.send(CTRL_D)
    assert terminal.wait() == 0


@pytest.mark.parametrize("plain", [("--no-markdown", ""), ("--color=never", ""), ("", "1")])
def test_markers_stay_where_nothing_is_rendered(chat: Open, plain: tuple[str, str]) -> None:
    flag, no_color = plain
    options = [flag] if flag else []
    terminal = chat("--engine=scripted", "-o", "text=**b**", *options, NO_COLOR=no_color)
    terminal.ask("Hi")

    terminal.expect("**b**\n")


def test_ctrl_c_stops_the_answer_and_not_the_program(chat: Open, folder: Path) -> None:
    terminal = chat("--engine", "engines:Slow", "--history", "talk.jsonl")
    terminal.ask("Tell me a story")
    terminal.expect("Once upon a")
    terminal.send(CTRL_C)
    terminal.expect("stopped; the conversation keeps the answer so far")
    terminal.ask("/exit")

    assert terminal.wait() == 0
    assert (folder / "aborted").exists()
    kept = json.loads((folder / "talk.jsonl").read_text().splitlines()[-1])
    assert kept == {"role": "assistant", "content": "Once upon a", "finish_reason": "cancelled"}


def test_ctrl_c_at_the_prompt_clears_the_line(chat: Open) -> None:
    terminal = chat("--engine", "engines:Echo")
    terminal.expect("> ")
    terminal.send("half a li")
    terminal.expect("half a li")
    terminal.interrupt_typing()
    terminal.ask("whole")

    terminal.expect("['whole']")


def test_a_line_that_ends_in_a_backslash_goes_on(chat: Open) -> None:
    terminal = chat("--engine", "engines:Echo", "--no-markdown")
    terminal.ask("one\\")
    terminal.expect(". ")
    terminal.send("two\r")

    terminal.expect(r"['one\ntwo']")


def test_a_pasted_block_is_one_message(chat: Open) -> None:
    terminal = chat("--engine", "engines:Echo", "--no-markdown")
    terminal.expect("> ")
    terminal.send("\x1b[200~// one\r\r  two \\\rthree\r\x1b[201~")
    terminal.expect("three")
    terminal.send("\r")

    terminal.expect(r"['// one\n\n  two \\\nthree']")


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"INPUTRC": "plain"}])
def test_lines_that_come_in_one_burst_are_one_message(
    chat: Open, folder: Path, variables: dict[str, str]
) -> None:
    (folder / "plain").write_text("set enable-bracketed-paste off\n")
    terminal = chat("--engine", "engines:Echo", "--no-markdown", **variables)
    terminal.expect("> ")
    terminal.send("/usr/bin/x: no\r\r  two \\\rthree\r")

    terminal.expect(r"['/usr/bin/x: no\n\n  two \\\nthree']")


def test_lines_typed_during_an_answer_are_messages_of_their_own(chat: Open, folder: Path) -> None:
    os.mkfifo(folder / "go")
    terminal = chat("--engine", "engines:Waiting", "--no-markdown")
    terminal.ask("one")
    terminal.expect("Well")
    terminal.send("two\rthree\r")
    (folder / "go").write_text("on")

    terminal.expect("'one']")
    terminal.expect("'two']")
    terminal.expect("'three']")


def test_words_wrap_at_the_width_of_the_terminal(chat: Open) -> None:
    script = "text=one two three\n\n| a | b |\n|---|--:|\n| c | ddd |"
    terminal = chat("--engine=scripted", "-o", script, COLUMNS="12")
    terminal.ask("Hi")

    terminal.expect("one two\nthree\n\n")
    terminal.expect("c\x1b[2m │ \x1b[0mddd\n")


def test_a_full_context_is_reported_and_the_chat_continues(chat: Open) -> None:
    terminal = chat("--engine", "engines:Full")
    terminal.ask("one")
    terminal.expect("tokens/s")
    terminal.ask("two")

    terminal.expect("engine.context-full")
    terminal.expect("your message was not added")
    terminal.expect("/save FILE saves it")
    terminal.ask("/reset")
    terminal.ask("three")
    terminal.expect("tokens/s")


def test_reasoning_is_printed_dimmed_and_not_saved(chat: Open, folder: Path) -> None:
    terminal = chat("--engine", "engines:Thinker", "--history", "talk.jsonl")
    terminal.ask("Why?")

    terminal.expect("\x1b[2mLet me\x1b[0m")
    terminal.expect("see\x1b[0m\n\nIt is so.\n")
    terminal.ask("/exit")
    assert terminal.wait() == 0
    assert "Let me" not in (folder / "talk.jsonl").read_text()


# From a pipe


def test_each_line_of_a_pipe_is_a_turn(start: Start, folder: Path) -> None:
    lines = "one\n\n/system Be brief\ntwo\n//three\n"

    code, out, err = piped(start, folder, lines, "--engine", "engines:Echo")

    assert code == 0
    assert out.splitlines() == [
        "['one']",
        """['Be brief', 'one', "['one']", 'two']""",
        out.splitlines()[2],
    ]
    assert out.splitlines()[2].endswith("'/three']")
    assert err.count("first token") == 3


def test_a_pipe_gets_the_answer_untouched(start: Start, folder: Path) -> None:
    script = "text=**b** \x1b[1m"

    assert piped(start, folder, "Hi\n", "--engine=scripted", "-o", script, "-q") == (
        0,
        "**b** \x1b[1m\n",
        "",
    )


def test_a_failure_ends_a_chat_from_a_pipe(start: Start, folder: Path) -> None:
    code, out, err = piped(start, folder, "a\nb\nc\n", "--engine", "engines:Full", "-q")

    assert (code, out.count("\n")) == (1, 1)
    assert "error[engine.context-full]" in err


def test_json_gives_the_frames_of_every_turn(start: Start, folder: Path) -> None:
    lines = ("--engine", "scripted", "-o", "text=Hi", "--format", "json")

    _, out, err = piped(start, folder, "a\nb\n", *lines)

    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert (kinds, err) == (["start", "delta", "end"] * 2, "")


# The file


def test_a_conversation_goes_on_where_it_ended(start: Start, folder: Path) -> None:
    options = ("--engine", "engines:Echo", "--history", "talk.jsonl", "-q")
    piped(start, folder, "gone\n/reset\none\n", *options, "--system", "Be brief")

    _, out, _ = piped(start, folder, "two\n", *options)

    assert out == """['Be brief', 'one', "['Be brief', 'one']", 'two']\n"""
    assert "gone" in (folder / "talk.jsonl").read_text()
    assert (folder / "talk.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("line", ["{", '{"role": "user"}', '{"role": "x", "content": ""}', "[]"])
def test_an_invalid_history_line_is_an_error_and_the_file_is_unchanged(
    tmp_path: Path, line: str
) -> None:
    path = tmp_path / "talk.jsonl"
    before = f'{{"role": "user", "content": "Hi"}}\n{line}\n'
    path.write_text(before)

    with pytest.raises(UsageError, match=r"talk\.jsonl:2: this line is not a message"):
        Conversation(str(path))

    assert path.read_text() == before


def test_a_saved_conversation_can_be_continued(tmp_path: Path) -> None:
    talk = Conversation()
    talk.set_system("Be brief")
    talk.add("Hi", "Hello", "stop")
    talk.save(str(tmp_path / "talk.jsonl"))
    talk.save(str(tmp_path / "talk.md"))

    again = Conversation(str(tmp_path / "talk.jsonl"))

    assert (again.system, again.messages) == (talk.system, talk.messages)
    assert "## user\n\nHi\n" in (tmp_path / "talk.md").read_text()


def test_a_history_without_a_final_line_end_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text('{"role": "system", "content": "Be brief"}')

    Conversation(str(path)).add("Hi", "Hello", "stop")

    again = Conversation(str(path))
    assert (again.system, len(again.messages)) == ("Be brief", 2)


def test_save_overwrites_nothing(start: Start, folder: Path) -> None:
    code, _, err = piped(start, folder, "/save engines.py\n", "--engine", "scripted")

    assert (code, (folder / "engines.py").read_text()) == (3, ENGINES)
    assert "cannot write engines.py: file exists" in err
