"""`torvyn deploy`: runs, exchanges and updates projects on a gateway."""

from __future__ import annotations

from typing import Final

from torvyn.cli.command_group import command_group
from torvyn.cli.deployment.channel_commands import command as channel
from torvyn.cli.deployment.follow_commands import follow, update
from torvyn.cli.deployment.generation_commands import activate, add, gc, list_, rollback
from torvyn.cli.deployment.run_command import run

EPILOG: Final = """\b
Examples:
  torvyn deploy add gateway ./dist
  torvyn deploy run gateway
  torvyn deploy list gateway
  torvyn deploy rollback gateway
  torvyn deploy follow gateway https://updates.example.com/channel.json --key release.pub
"""


@command_group("deploy", epilog=EPILOG)
def command() -> None:
    """Run, exchange and update projects on a gateway.

    A deployment is a folder of generations: packed projects that never change. One of them is
    current. A new one is on trial until it has been healthy for a while; if it fails, the one
    before comes back. No command needs a network, except where you name a registry.
    """


for subcommand in (add, list_, activate, rollback, gc, run, follow, update, channel):
    command.add_command(subcommand)
