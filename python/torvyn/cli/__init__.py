"""The `torvyn` command.

app                the command group; imports a command when it is called
commands           the commands, one file each
command_decorator  the options and the error handling that every command has
command_group      commands with subcommands
target             which flow of which manifest, and the overrides for it
serving            what `serve` serves
inference          what `generate` and `chat` share
benchmark          the measurements behind `bench`
templates          the files that `init` writes
terminal           Markdown, tables and wrapped text for a terminal
screen             data to stdout, messages to stderr, as text or as JSON
summary            the summary of a flow that has ended
timeline           the calls of a traced flow, grouped by element
memory_warnings    warns of flows that may use more memory than there is
store_warnings     warns of stored data that is damaged
stored_elements    what a flow has stored: elements that wait, dead letters
supervision        flows that systemd runs: messages, health
artifacts          what the commands of artifacts share
cluster            what the commands of clusters print
deployment         the commands of `deploy`
cluster_run        a flow that runs on a cluster while a person waits
flow_runs          the flows of `run`, from their first lines to their summaries
foreground_run     flows that run while a person waits: signals and pipes
stdout_redirect    sends what components print to stderr
failures           exceptions to exit codes
usage_errors       click's usage errors in our format
process_exit       ends the process with the command's exit code

This module imports nothing up front: `torvyn --help` must answer at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the script; ends the process with the command's exit code."""
    from torvyn._io import line_output
    from torvyn.cli.app import run
    from torvyn.cli.process_exit import exit_with
    from torvyn.cli.screen import settle_streams

    line_output.install()
    code = run(sys.argv[1:])
    settle_streams()
    exit_with(code)
