"""Redirects what components print to stderr, while a command uses stdout for its own data.

The file descriptor is redirected as well, so that the output of child processes is included.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from torvyn._io.line_output import finish, line_stream
from torvyn.cli.screen import flush_stdout


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
