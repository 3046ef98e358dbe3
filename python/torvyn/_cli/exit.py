"""Turns every exception of a command into a message and an exit code, and ends the process with it.

The process ends even if a component's thread never does. Usage errors of click become ours.
"""

from __future__ import annotations

import os
import re
import select
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import click

import torvyn
from torvyn._cli.screen import Screen, discard_output, end_output
from torvyn.errors import BugError, ContractError, FlowError, LinkError, TorvynError, UsageError

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


_FLUSH_S: Final = 0.5
_STREAMS: Final = ("stdout", "stderr")

_has_left_thread = False


def leave_thread_behind() -> None:
    """Makes the process exit without waiting for a stuck thread, or for a lock that it holds."""
    global _has_left_thread
    _has_left_thread = True
    for name in _STREAMS:
        if not _flushes(name):
            # The thread is stuck in a write and holds the lock of the stream, or of both.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def exit_with(code: int) -> NoReturn:
    if _has_left_thread:
        for name in _STREAMS:
            _flushes(name)
        os._exit(code)
    sys.exit(code)


def _flushes(name: str) -> bool:
    """Whether flushing this standard stream ends, with or without an error."""

    def flush() -> None:
        with suppress(OSError, ValueError, AttributeError):
            getattr(sys, name).flush()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    thread.join(_FLUSH_S)
    return not thread.is_alive()


def usage_error(error: click.ClickException) -> UsageError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "torvyn"
    see = f"see `{command} --help`"
    if isinstance(error, click.NoSuchOption):
        near = sorted(error.possibilities or [])
        hint = f"did you mean `{near[0]}`?" if near else see
        message = f"`{command}` has no option `{error.option_name}`"
        return UsageError("cli.unknown-option", message, hint=hint)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        message = f"`{command}` needs {_name(error.param)}{_choices(error.param)}"
        return UsageError("cli.missing-argument", message, hint=see)
    if isinstance(error, click.BadParameter) and error.param is not None:
        message = f"{_name(error.param)}: {_plain(error.message)}"
        return UsageError("cli.bad-value", message, hint=_near(error) or see)
    message = error.format_message().rstrip(".")
    return UsageError("cli.bad-usage", message[:1].lower() + message[1:], hint=see)


def _name(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return f"`{max(param.opts, key=len)}`"
    return param.metavar or param.human_readable_name


def _plain(message: str) -> str:
    message = re.sub(r"is not in the range x>=(\S+?)\.?$", r"is less than \1", message)
    return message.rstrip(".").replace("integer range", "whole number").replace("integer", "number")


def _choices(param: click.Parameter) -> str:
    choices = getattr(param.type, "choices", ())
    return f": {', '.join(choices)}" if choices else ""


def _near(error: click.BadParameter) -> str | None:
    """A hint with the most similar choice; click's message begins with the value in quotes."""
    choices = getattr(error.param.type, "choices", ()) if error.param else ()
    value = error.message.split("'")[1] if error.message.startswith("'") else ""
    from difflib import get_close_matches

    near = get_close_matches(value, choices, n=1)
    return f"did you mean `{near[0]}`?" if near else None
