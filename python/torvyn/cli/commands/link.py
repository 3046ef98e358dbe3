"""`torvyn link`: shows the plan of a flow without running it."""

from __future__ import annotations

from typing import Any

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import Target, artifact_options, flow_options

EXAMPLE = """\
torvyn link flow.main
torvyn link --config filter.words=secret --format json"""


@make_command("link", example=EXAMPLE)
@flow_options
@artifact_options
def command(screen: Screen, **target: Any) -> int:
    """Show the plan of a flow without running it.

    Lists the nodes in the order in which they start, with their roles and components, and the
    edges with the capacities of their queues.
    """
    plan = Target.of(**target).link(screen)
    if screen.is_json:
        screen.document(plan.to_dict())
    else:
        screen.data(plan.render())
    return 0
