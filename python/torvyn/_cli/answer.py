"""Reads answers for a command, and prints them: as text, as Markdown, or as frames, one per line.

A signal ends the answer, and the engine stops at once. One event loop serves all answers of a
command, so that connections to an upstream stay open. If the consumer of the deltas raises, the
engine's request ends as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from torvyn._cli.screen import Screen
from torvyn._cli.terminal.glyphs import glyphs_for
from torvyn._cli.terminal.inline_markdown import QUIET
from torvyn._cli.terminal.markdown import Markdown
from torvyn._cli.terminal.word_wrap import Pen, Wrap
from torvyn._io.closing import CloseOnExit
from torvyn._io.process import SignalHandler
from torvyn._io.safe_text import escape_controls

if TYPE_CHECKING:
    from torvyn._cli.model import AnyGeneration, AsyncCloseable
    from torvyn.engine import Delta
    from torvyn.errors import TorvynError
    from torvyn.protocol import Encoder


class Printer(Protocol):
    """Prints the deltas of one answer, then its end and the error that ended it, if any."""

    def take(self, delta: Delta) -> None: ...

    def end(self, generation: AnyGeneration, error: TorvynError | None = None) -> None: ...


class TextPrinter:
    """Prints text as it arrives. On a terminal, control characters are escaped and the last line is
    ended; a pipe gets the text unchanged. Several choices are printed one after the other: the
    current one streams, the others are buffered."""

    def __init__(
        self,
        screen: Screen,
        choices: int = 1,
        *,
        ends_lines: bool = False,
        renders_markdown: bool = False,
    ) -> None:
        self._screen = screen
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._ends_lines = ends_lines or self._is_terminal or choices > 1
        self._markdown = _renderer(screen) if renders_markdown else None
        self._buffers: list[list[str]] = [[] for _ in range(choices)]
        self._is_finished = [False] * choices
        self._current = 0
        self._ends_line = True
        if choices > 1:
            self._announce()

    def take(self, delta: Delta) -> None:
        text = delta.text if delta.kind == "text" else ""
        if text and delta.index == self._current:
            self._print(text)
        elif text:
            self._buffers[delta.index].append(text)
        if delta.finish_reason is not None:
            self._is_finished[delta.index] = True
            self._advance()

    def end(self, generation: AnyGeneration, error: TorvynError | None = None) -> None:
        self._is_finished = [True] * len(self._is_finished)
        self._advance()
        self._finish()

    def _advance(self) -> None:
        """Moves on to the next choice, and its buffered text, if the current one has ended."""
        while self._current + 1 < len(self._buffers) and self._is_finished[self._current]:
            self._finish()
            self._current += 1
            self._announce()
            for text in self._buffers[self._current]:
                self._print(text)
            self._buffers[self._current].clear()

    def _announce(self) -> None:
        self._screen.info(f"[torvyn] choice {self._current}")

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
    """Renders Markdown for standard output; without colors, the marks of spans stay visible."""
    has_styles = screen.has_color(sys.stdout)
    return Markdown(terminal_columns, has_styles=has_styles, glyphs=glyphs_for(sys.stdout))


class ReasoningPrinter:
    """Prints a model's reasoning to standard error, dimmed."""

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
        self._screen.stream_info(self._pen.take(is_over=True))

    def finish(self) -> None:
        """Leaves an empty line between the reasoning and the answer."""
        self._wrap.newline()
        self._wrap.newline()
        self._screen.stream_info(self._pen.take(is_over=True))


def wrap_message(text: str) -> str:
    """A message in lines that fit the terminal, if standard error is one."""
    if sys.stderr is None or not sys.stderr.isatty():
        return text
    pen = Pen(has_styles=False)
    wrap = Wrap(pen, terminal_columns)
    wrap.put(text, is_whole=True)
    wrap.flush()
    return pen.take()


def terminal_columns() -> int:
    """The current width of the terminal."""
    return shutil.get_terminal_size().columns


class FramePrinter:
    """Prints frames of the `torvyn` dialect: start, deltas, the error if there was one, end."""

    def __init__(self, screen: Screen, generation: AnyGeneration, model: str) -> None:
        self._screen = screen
        self._generation = generation
        self._model = model
        self._matched_stops: dict[int, str | None] = {}
        self._encoder: Encoder | None = None
        if generation.request_id:
            self._started_encoder()

    def _started_encoder(self) -> Encoder:
        """Prints the start frame first. A server assigns the id when the stream has started."""
        if self._encoder is None:
            from torvyn.protocol import Encoder

            self._encoder = Encoder(
                "torvyn",
                "lines",
                id=self._generation.request_id,
                flow=self._model,
                created=int(time.time()),
                epoch="0",
                choices=self._generation.request.n,
            )
            self._screen.frame(self._encoder.start())
        return self._encoder

    def take(self, delta: Delta) -> None:
        if delta.finish_reason is not None:
            self._matched_stops[delta.index] = delta.matched_stop
        if delta.text or delta.call is not None:
            encoder = self._started_encoder()
            self._screen.frame(
                encoder.delta(delta.index, delta.kind, delta.text, delta.call, delta.logprobs)
            )

    def end(self, generation: AnyGeneration, error: TorvynError | None = None) -> None:
        from torvyn.errors import Unavailable
        from torvyn.protocol import EndFrame, Finish

        encoder = self._started_encoder()
        if error is not None:
            message = self._screen.redact(error.message)
            is_retryable = isinstance(error, Unavailable)
            self._screen.frame(encoder.error(error.code, message, is_retryable))
        finish = tuple(
            Finish(
                index,
                reason or "error",
                self._matched_stops.get(index),
                side=generation.filtered_side if reason == "content_filter" else None,
            )
            for index, reason in enumerate(generation.finish_reasons)
        )
        number = encoder.seq + 1
        end = EndFrame(number, finish, generation.usage, generation.timing)
        self._screen.frame(encoder.encode(end))


def timing_line(figures: Mapping[str, float], completion: int, prompt: int) -> str:
    """The speed of an answer in one line."""
    parts = []
    if "ttft_s" in figures:
        parts.append(f"first token {_seconds(figures['ttft_s'])}")
    if "tokens_per_s" in figures:
        parts.append(f"{figures['tokens_per_s']:.1f} tokens/s")
    duration = _seconds(figures.get("duration_s", 0.0))
    parts.append(f"{completion} token{'' if completion == 1 else 's'} in {duration}")
    if prompt:
        parts.append(f"{prompt} prompt token{'' if prompt == 1 else 's'}")
    return " | ".join(parts)


def _seconds(duration_s: float) -> str:
    return f"{duration_s * 1000:.0f} ms" if duration_s < 1 else f"{duration_s:.2f} s"


class AnswerReader(CloseOnExit):
    """`read` one answer after the other. The first `max_signals` signals end the answer, the next
    one ends the process."""

    def __init__(self, engine: AsyncCloseable, max_signals: int = 1) -> None:
        self._engine = engine
        self._max_signals = max_signals
        self._runner = asyncio.Runner()

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._engine.aclose())

    def read(self, generation: AnyGeneration, consume: Callable[[Delta], None]) -> int | None:
        """Passes every delta to `consume`; returns the signal that ended the answer, if any."""
        return self._runner.run(self._read(generation, consume))

    async def _read(
        self, generation: AnyGeneration, consume: Callable[[Delta], None]
    ) -> int | None:
        loop = asyncio.get_running_loop()
        handler = SignalHandler(lambda _: generation.close(), limit=self._max_signals, loop=loop)
        with handler as signals:
            async with contextlib.aclosing(aiter(generation)) as deltas:
                async for delta in deltas:
                    consume(delta)
        return signals.received[0] if signals.received else None
