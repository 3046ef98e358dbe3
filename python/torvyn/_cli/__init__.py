"""The `torvyn` command.

app                the command group; imports a command when it is called
command            makes commands and groups of functions
commands           the commands, one file each
exit               exceptions to exit codes, and the end of the process
screen             data to stdout, messages to stderr, as text or as JSON
progress           a line that shows how far something is
target             which flow or server of which project, and the overrides for it
statistics         the summary of a flow that has ended
timeline           the calls of a traced flow, grouped by element
foreground         flows that run while a person waits: signals, pipes, systemd
flow_runs          the flows of `run`, from their first lines to their summaries
cluster_run        a flow that runs on a cluster while a person waits
flow_socket        how other commands reach a running flow
exchanger          brings the flows of a deployment to another generation
served_exchange    the same for a server
stored_elements    what a flow has stored: elements that wait, dead letters, damage
systemd            units, and the commands of systemd
journal            entries of systemd's journal as text
service_status     the state of a service
artifact_options   what the commands of artifacts share
deploy_options     what the commands of deployments share
deploy_companions  what runs beside a deployment
kubernetes_output  writes manifests for Kubernetes
bench_measurement  timed and traced rounds
bench_comparison   whether a flow is slower than before
model              what `generate` and `chat` talk to
answer             reads an answer under signals, and prints it
conversation       messages, and their file
templates          the files that `init` writes
terminal           Markdown, tables and wrapped text for a terminal

This module imports nothing up front: `torvyn --help` must answer at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the script; ends the process with the command's exit code."""
    from torvyn._cli.app import run
    from torvyn._cli.exit import exit_with
    from torvyn._cli.screen import settle_streams
    from torvyn._io import line_output

    line_output.install()
    code = run(sys.argv[1:])
    settle_streams()
    exit_with(code)
