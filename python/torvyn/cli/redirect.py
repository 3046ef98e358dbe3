"""Standard output of components, led elsewhere while a command needs its own for data.

On the level of the descriptor as well, so that what child processes write goes along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torvyn.cli.screen import flush_stdout


@contextmanager
def output_to_stderr(discard: bool = False) -> Iterator[None]:
    """What is printed goes to standard error, or nowhere."""
    flush_stdout()
    ours, our_stream = os.dup(1), sys.stdout
    with open(os.devnull if discard else os.dup(2), "w", encoding="utf-8") as other:
        os.dup2(other.fileno(), 1)
        sys.stdout = other
        try:
            yield
        finally:
            sys.stdout = our_stream
            os.dup2(ours, 1)
            os.close(ours)
