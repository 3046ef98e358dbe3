"""The `torvyn` command: one file per command, each parses, calls and renders.

    app      the group; finds commands when called     screen    what a person or a program reads
    command  the options that every command has        failures  exceptions -> exit codes
    target   which flow of which file, changed how     attend    signals and pipes of a running flow
    asking   which engine or flow answers, and how     listening signals while an answer streams
    printing an answer as text or frames               markdown  for a terminal, while it streams
    reply    what an answer is to all of them          remote    a server's answers
    exiting  the end of the process

Nothing is imported here before it is called: `torvyn --help` must answer at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the script; ends the process with the command's exit code."""
    from torvyn.cli.app import run
    from torvyn.cli.process_exit import exit_with
    from torvyn.cli.screen import settle_streams

    code = run(sys.argv[1:])
    settle_streams()
    exit_with(code)
