"""An answer on standard output: as text, as rendered Markdown, or as frames, one JSON a line."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from torvyn.cli.screen import Screen
from torvyn.cli.terminal.glyphs import glyphs_for
from torvyn.cli.terminal.inline_markdown import QUIET
from torvyn.cli.terminal.markdown import Markdown
from torvyn.cli.terminal.word_wrap import Pen, Wrap
from torvyn.text.control_characters import escape_controls

if TYPE_CHECKING:
    from torvyn.cli.inference.reply import Reply
    from torvyn.engine import Delta
    from torvyn.errors import TorvynError
    from torvyn.protocol import Encoder


class Printer(Protocol):
    """Takes the deltas of one answer, then its end; `error` says why it could not go on."""

    def take(self, delta: Delta) -> None: ...

    def end(self, generation: Reply, error: TorvynError | None = None) -> None: ...


class Text:
    """Text as it comes. On a terminal its control characters are shown and its last line is ended;
    in a pipe nothing is changed. Of several choices each is printed whole, on lines of its own,
    in their order: the one whose turn it is streams, the others wait."""

    def __init__(
        self,
        screen: Screen,
        choices: int = 1,
        *,
        ends_lines: bool = False,
        is_rendered: bool = False,
    ) -> None:
        self._screen = screen
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._ends_lines = ends_lines or self._is_terminal or choices > 1
        self._markdown = _renderer(screen) if is_rendered else None
        self._waiting: list[list[str]] = [[] for _ in range(choices)]
        self._is_finished = [False] * choices
        self._turn = 0
        self._ends_line = True
        if choices > 1:
            self._announce()

    def take(self, delta: Delta) -> None:
        text = delta.text if delta.kind == "text" else ""
        if text and delta.index == self._turn:
            self._print(text)
        elif text:
            self._waiting[delta.index].append(text)
        if delta.finish_reason is not None:
            self._is_finished[delta.index] = True
            self._go_on()

    def end(self, generation: Reply, error: TorvynError | None = None) -> None:
        self._is_finished = [True] * len(self._is_finished)
        self._go_on()
        self._finish()

    def _go_on(self) -> None:
        """To the next choice, and what waits of it, if this one is over."""
        while self._turn + 1 < len(self._waiting) and self._is_finished[self._turn]:
            self._finish()
            self._turn += 1
            self._announce()
            for text in self._waiting[self._turn]:
                self._print(text)
            self._waiting[self._turn].clear()

    def _announce(self) -> None:
        self._screen.say(f"[torvyn] choice {self._turn}")

    def _print(self, text: str) -> None:
        if self._markdown is not None:
            text = self._markdown.feed(text)
        elif self._is_terminal:
            text = escape_controls(text)
        self._write(text)

    def _finish(self) -> None:
        if self._markdown is not None:
            self._write(self._markdown.finish())
            self._markdown = _renderer(self._screen)
        if not self._ends_line and self._ends_lines:
            self._write("\n")
        self._ends_line = True

    def _write(self, text: str) -> None:
        if text:
            self._ends_line = text.endswith("\n")
            self._screen.stream(text)


def _renderer(screen: Screen) -> Markdown:
    """Markdown for standard output; without colours the marks of spans stay."""
    has_styles = screen.has_color(sys.stdout)
    return Markdown(terminal_columns, has_styles=has_styles, glyphs=glyphs_for(sys.stdout))


class Reasoning:
    """What a model thinks aloud, for a person who watches: dim, on standard error."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._pen = Pen(screen.has_color(sys.stderr))
        self._wrap = Wrap(self._pen, terminal_columns)

    def take(self, text: str) -> None:
        first, *rest = escape_controls(text).replace("\t", "    ").split("\n")
        self._wrap.put(first, QUIET)
        for line in rest:
            self._wrap.newline()
            self._wrap.put(line, QUIET)
        self._screen.whisper(self._pen.taken(is_over=True))

    def finish(self) -> None:
        """An empty line stands between the thoughts and the answer."""
        self._wrap.newline()
        self._wrap.newline()
        self._screen.whisper(self._pen.taken(is_over=True))


def fitted(text: str) -> str:
    """A remark, in lines that fit the terminal if standard error is one."""
    if sys.stderr is None or not sys.stderr.isatty():
        return text
    pen = Pen(has_styles=False)
    wrap = Wrap(pen, terminal_columns)
    wrap.put(text, is_whole=True)
    wrap.flush()
    return pen.taken()


def terminal_columns() -> int:
    """The width of the terminal as it is now."""
    return shutil.get_terminal_size().columns


class Frames:
    """The frames of torvyn's own dialect: start, deltas, an error if there was one, end."""

    def __init__(self, screen: Screen, generation: Reply, answerer: str) -> None:
        self._screen = screen
        self._generation = generation
        self._answerer = answerer
        self._matched: dict[int, str | None] = {}
        self._started: Encoder | None = None
        if generation.request_id:
            self._wire()

    def _wire(self) -> Encoder:
        """The encoder, whose start was printed. A server names its stream when it has begun."""
        if self._started is None:
            from torvyn.protocol import Encoder

            self._started = Encoder(
                "torvyn",
                "lines",
                id=self._generation.request_id,
                flow=self._answerer,
                created=int(time.time()),
                epoch="0",
                choices=self._generation.request.n,
            )
            self._screen.frame(self._started.start())
        return self._started

    def take(self, delta: Delta) -> None:
        if delta.finish_reason is not None:
            self._matched[delta.index] = delta.matched_stop
        if delta.text or delta.call is not None:
            encoded = self._wire().delta(
                delta.index, delta.kind, delta.text, delta.call, delta.logprobs
            )
            self._screen.frame(encoded)

    def end(self, generation: Reply, error: TorvynError | None = None) -> None:
        from torvyn.errors import Unavailable
        from torvyn.protocol import EndFrame, Finish

        encoder = self._wire()
        if error is not None:
            message = self._screen.redact(error.message)
            is_retryable = isinstance(error, Unavailable)
            self._screen.frame(encoder.error(error.code, message, is_retryable))
        finish = tuple(
            Finish(
                index,
                reason or "error",
                self._matched.get(index),
                side=generation.filtered_side if reason == "content_filter" else None,
            )
            for index, reason in enumerate(generation.finish_reasons)
        )
        number = encoder.seq + 1
        end = EndFrame(number, finish, generation.usage, generation.timing)
        self._screen.frame(encoder.encode(end))


def timing_line(figures: Mapping[str, float], completion: int, prompt: int) -> str:
    """What a person wants to know of an answer's speed."""
    parts = []
    if "ttft_s" in figures:
        parts.append(f"first token {_seconds(figures['ttft_s'])}")
    if "tokens_per_s" in figures:
        parts.append(f"{figures['tokens_per_s']:.1f} tokens/s")
    parts.append(f"{completion} tokens in {_seconds(figures.get('duration_s', 0.0))}")
    if prompt:
        parts.append(f"{prompt} in the prompt")
    return " | ".join(parts)


def _seconds(duration_s: float) -> str:
    return f"{duration_s * 1000:.0f} ms" if duration_s < 1 else f"{duration_s:.2f} s"
