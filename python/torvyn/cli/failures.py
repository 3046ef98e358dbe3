"""Turns every exception of a command into a message on the screen and an exit code."""

from __future__ import annotations

import os
import select
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

import torvyn
from torvyn.cli.screen import Screen, discard_output, end_output
from torvyn.cli.usage_errors import usage_error
from torvyn.errors import BugError, ContractError, FlowError, LinkError, TorvynError

INTERRUPTED: Final = 130
TERMINATED: Final = 143

_NATIVE: Final = "NativeError"
"""By name: `torvyn --help` does not need the native module."""
_PACKAGE: Final = str(Path(torvyn.__file__).parent) + os.sep


def exit_code_of(action: Callable[[], Any], screen: Screen) -> int:
    """Runs the action and returns its exit code; catches everything but the end of the process."""
    try:
        code = action()
    except KeyboardInterrupt:
        screen.info("", "[torvyn] Interrupted.")
        return INTERRUPTED
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        return _fail(usage_error(error), screen)
    except TorvynError as error:
        return 0 if output_was_closed(error) else _fail(error, screen)
    except Exception as error:
        return 0 if output_was_closed(error) else _fail(bug(error), screen)
    return code if isinstance(code, int) else 0


def _fail(error: TorvynError, screen: Screen) -> int:
    screen.error(error)
    place = error.location
    shown = f"at {place.file}:{place.line}" if place and place.line else "\n"
    for note in getattr(error, "__notes__", ()):
        if not note.startswith(shown):
            screen.message("\n" + screen.redact(note))
    if screen.verbose and error.__cause__ is not None:
        screen.message("\n" + screen.redact(cause_text(error)))
    elif is_of_component(error):
        screen.info("", "The same command with `-v` shows the traceback.")
    return error.exit_code


def is_of_component(error: TorvynError) -> bool:
    """Whether an exception of a component is behind it, whose traceback helps its author."""
    if not isinstance(error.__cause__, Exception):
        return False
    if isinstance(error, FlowError):
        return error.node is not None
    is_of_file = isinstance(error.__cause__, OSError) or type(error.__cause__).__name__ == _NATIVE
    return isinstance(error, ContractError | LinkError) and not is_of_file


def bug(cause: Exception) -> BugError:
    # Imported late, because `torvyn --help` does not need it.
    from torvyn._contract.inspection import describe_error

    error = BugError(
        "cli.bug",
        f"torvyn failed: {describe_error(cause)}",
        hint="this is a bug in torvyn; please report it with the output of `-v`",
    )
    error.__cause__ = cause
    return error


def cause_text(error: TorvynError) -> str:
    """The traceback behind an error: the component's own frames, or all frames for a bug."""
    cause = error.__cause__
    assert cause is not None
    report = traceback.TracebackException.from_exception(cause)
    if not isinstance(error, BugError):
        exception: traceback.TracebackException | None = report
        while exception is not None:
            own = [frame for frame in exception.stack if not frame.filename.startswith(_PACKAGE)]
            exception.stack = traceback.StackSummary.from_list(own)
            exception = exception.__cause__ or exception.__context__
    return "".join(report.format())


# Pipes


def output_was_closed(error: BaseException) -> bool:
    """Whether the reader of our standard output has gone, which is not a failure."""
    exception: BaseException | None = error
    while exception is not None and not isinstance(exception, BrokenPipeError):
        exception = exception.__cause__ or exception.__context__
    if exception is None or not reader_is_gone():
        return False
    discard_output()
    return True


def reader_is_gone() -> bool:
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
        events = poll.poll(0)
    except (OSError, ValueError, AttributeError):
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in events)


def flush_output(code: int, screen: Screen) -> int:
    """Flushes standard output before the process ends."""
    try:
        end_output()
    except BrokenPipeError:
        discard_output()
    except FlowError as error:
        return code or _fail(error, screen)
    return code
