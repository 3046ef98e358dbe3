"""The output of a command: data to stdout, messages and errors to stderr, as text or as JSON.

Standard output is flushed before each message, so that both streams merged are in order. Secrets
are removed from error messages, not from counts and names. What components print goes to stderr
while a command uses stdout for its own data; the file descriptor is redirected as well, so that the
output of child processes is included.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import IO, Any, Final, TextIO

from torvyn._io.line_output import finish, line_stream, write_lines, write_text
from torvyn._io.safe_text import escape_controls, escape_json, redact, writable
from torvyn.errors import Diagnostic, FlowError, TorvynError, os_reason

SCHEMA_VERSION: Final = 1

_STYLES: Final = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "hint": "\x1b[36m",
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
}
_STYLES_OFF: Final = "\x1b[0m"


class Screen:
    def __init__(
        self, format: str = "human", color: str = "auto", quiet: bool = False, verbose: int = 0
    ) -> None:
        self.is_json = format == "json"
        self.format = format
        self.is_quiet = quiet
        self.verbose = verbose
        self.secrets: frozenset[str] = frozenset()
        self._color = color
        self._flow: str | None = None
        self.prefix: str | None = None
        """The text before each line of a flow that is not alone."""

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Screen:
        """The screen for a command line that cannot be parsed."""
        wants_json = "--format=json" in arguments or any(
            pair == ("--format", "json") for pair in pairwise(arguments)
        )
        verbose = any(argument in ("-v", "--verbose") for argument in arguments)
        return cls("json" if wants_json else "human", verbose=int(verbose))

    def of_flow(self, name: str, prefix: str) -> Screen:
        """The screen for the messages of one of several flows: each line has the prefix, and there
        are no empty ones."""
        screen = copy(self)
        screen._flow, screen.prefix = name, prefix
        return screen

    @property
    def log_level(self) -> int:
        """Which of Torvyn's log records are shown: errors, warnings, progress (JSON) or all."""
        if self.is_quiet:
            return logging.ERROR
        levels = (logging.WARNING, logging.INFO, logging.DEBUG)
        return levels[min(max(self.verbose, int(self.is_json)), 2)]

    @property
    def component_log_level(self) -> int:
        """The same for the log records of components and libraries."""
        if self.is_quiet:
            return logging.ERROR
        return (logging.WARNING, logging.INFO, logging.DEBUG)[min(self.verbose, 2)]

    # Messages

    def info(self, *lines: str) -> None:
        """Lines on stderr, unless `-q` or JSON."""
        if not self.is_quiet and not self.is_json:
            self._write(sys.stderr, "\n".join(lines) + "\n")

    def message(self, text: str) -> None:
        """Text on stderr that the user asked for, even with `-q`."""
        self._write(sys.stderr, text if text.endswith("\n") else text + "\n")

    def stream_dim(self, text: str) -> None:
        """Part of a line on stderr, escaped and dimmed."""
        self.stream_info(self.paint(escape_controls(text), "dim"))

    def stream_info(self, text: str) -> None:
        """Part of a line on stderr, as it is."""
        if not self.is_quiet and not self.is_json and sys.stderr is not None:
            self._write(sys.stderr, text)

    # Data

    def data(self, text: str) -> None:
        self._write(sys.stdout, text if text.endswith("\n") else text + "\n")

    def stream(self, text: str) -> None:
        """Text on stdout, as it is; more of the same line may follow."""
        self._write(sys.stdout, text)

    def frame(self, data: bytes) -> None:
        """JSON in UTF-8 on stdout, whatever the terminal's encoding."""
        data = escape_json(data.decode()).encode()
        flush_stdout()
        with output_errors():
            if sys.stdout is not None:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()

    def document(self, fields: dict[str, Any], indent: int | None = 2) -> None:
        """The result of a command as JSON; without `indent`, on one line."""
        self.json({"schema_version": SCHEMA_VERSION, **fields}, indent)

    def json(self, value: Any, indent: int | None = 2) -> None:
        """JSON that is not a result of a command, such as a schema."""
        self.data(_json(value, indent))

    # Errors

    def error(self, error: TorvynError) -> None:
        self.problems(error.diagnostics, exit_code=error.exit_code)

    def warn(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Warnings, unless `-q`."""
        if diagnostics and not self.is_quiet:
            self.problems(diagnostics, exit_code=0)
            self.info("")

    def problems(self, diagnostics: Iterable[Diagnostic], exit_code: int) -> None:
        """Prints one block per problem, without secrets."""
        diagnostics = [self._redact_diagnostic(diagnostic) for diagnostic in diagnostics]
        if self.is_json:
            problems = [diagnostic.to_dict() for diagnostic in diagnostics]
            fields = {
                "schema_version": SCHEMA_VERSION,
                **({} if self._flow is None else {"flow": self._flow}),
                "exit_code": exit_code,
                "problems": problems,
            }
            self._write(sys.stderr, _json(fields) + "\n")
        else:
            blocks = [
                self._paint_block(escape_controls(diagnostic.render()))
                for diagnostic in diagnostics
            ]
            self._write(sys.stderr, "\n\n".join(blocks) + "\n")

    def paint(self, text: str, style: str, stream: IO[str] | None = None) -> str:
        has_color = self.has_color(stream or sys.stderr)
        return f"{_STYLES[style]}{text}{_STYLES_OFF}" if has_color else text

    def _paint_block(self, block: str) -> str:
        head, colon, rest = block.partition(":")
        style = "warning" if head.startswith("warning") else "error"
        rest = rest.replace("\nhint:", f"\n{self.paint('hint', 'hint')}:")
        return self.paint(head + colon, style) + rest

    def has_color(self, stream: IO[str] | None) -> bool:
        if self._color != "auto":
            return self._color == "always"
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        if plain or stream is None:
            return False
        try:
            return stream.isatty()
        except (ValueError, AttributeError):
            return False

    def redact(self, text: str) -> str:
        return redact(text, self.secrets)

    def _redact_diagnostic(self, diagnostic: Diagnostic) -> Diagnostic:
        hint = diagnostic.hint and self._quote(diagnostic.hint)
        return replace(diagnostic, message=self._quote(diagnostic.message), hint=hint)

    def _quote(self, text: str) -> str:
        """Removes secrets. In human output, lines after the first are indented, so that a text
        quoted in a message cannot pass for a line of Torvyn's."""
        text = self.redact(text)
        return text if self.is_json else text.replace("\n", "\n  ")

    def _write(self, stream: TextIO | None, text: str) -> None:
        if stream is None:
            return
        flush_stdout()
        text = writable(text)
        # A message that cannot be written is dropped: work does not stop because stderr is closed.
        with output_errors() if stream is sys.stdout else suppress(Exception):
            if self.prefix is not None and stream is sys.stderr and not self.is_json:
                lines = [line for line in text.split("\n") if line]
                if lines:
                    write_lines(stream, "\n".join(lines), self.prefix)
            else:
                write_text(stream, text)
            stream.flush()


@contextmanager
def output_errors() -> Iterator[None]:
    """Turns errors of standard output into a `FlowError`, once.

    A `BrokenPipeError` stays one: a reader that has gone is not an error.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        reason = os_reason(error)
        message = f"cannot write to standard output: {reason}"
        raise FlowError("cli.output-failed", message) from error
    except (ValueError, AttributeError) as error:
        sys.stdout = None
        message = "cannot write to standard output: a component has closed or replaced it"
        raise FlowError("cli.output-failed", message) from error


def flush_stdout() -> None:
    """Flushes standard output, unless a component has closed it."""
    if not is_usable(sys.stdout):
        return
    with output_errors():
        sys.stdout.flush()


def end_output(prefix: str | None = None) -> None:
    """Also writes what components have begun to print and will not end."""
    if is_usable(sys.stdout):
        with output_errors():
            finish(sys.stdout, prefix)
    if is_usable(sys.stderr):
        with suppress(Exception):
            finish(sys.stderr, prefix)


def is_usable(stream: TextIO | None) -> bool:
    """Whether the stream is open: a component may have closed, detached or replaced it."""
    try:
        return stream is not None and callable(stream.flush) and not stream.closed
    except (ValueError, AttributeError):
        return False


def settle_streams() -> None:
    """Removes streams that components have closed or replaced, and messages that could not be
    written: Python would fail to flush them at exit, and exit with 120."""
    for name in ("stdout", "stderr"):
        if not is_usable(getattr(sys, name)):
            setattr(sys, name, None)
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            _discard(sys.stderr)


def discard_output() -> None:
    """Discards everything that is written to standard output from now on."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    with suppress(ValueError, AttributeError):
        os.dup2(null, stream.fileno())
    os.close(null)


def _json(fields: Any, indent: int | None = None) -> str:
    return escape_json(json.dumps(fields, ensure_ascii=False, indent=indent, default=str))


@contextmanager
def output_to_stderr(discard: bool = False) -> Iterator[None]:
    """What is printed goes to standard error, or nowhere."""
    flush_stdout()
    ours, our_stream = _copy(1), sys.stdout
    target = None if discard else _copy(2)
    with open(os.devnull if target is None else target, "w", encoding="utf-8") as other:
        os.dup2(other.fileno(), 1)
        lines = sys.stdout = line_stream(other)
        try:
            yield
        finally:
            with suppress(OSError, ValueError):
                finish(lines)
            sys.stdout = our_stream
            if ours is not None:
                os.dup2(ours, 1)
                os.close(ours)


def _copy(descriptor: int) -> int | None:
    """A duplicate of the descriptor; None if it is closed."""
    try:
        return os.dup(descriptor)
    except OSError:
        return None
