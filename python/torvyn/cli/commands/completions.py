"""`torvyn completions`: the script that makes a shell complete our commands."""

from __future__ import annotations

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen

EXAMPLE = """\
torvyn completions bash >> ~/.bashrc
torvyn completions zsh >> ~/.zshrc
torvyn completions fish > ~/.config/fish/completions/torvyn.fish"""


@make_command("completions", example=EXAMPLE)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def command(screen: Screen, shell: str) -> int:
    """Print the completion script of a shell.

    SHELL is bash, zsh or fish.
    """
    from click.shell_completion import get_completion_class

    from torvyn.cli.app import COMPLETE, group

    found = get_completion_class(shell)
    assert found is not None
    # Only the text: `source()` would also look for a bash on the path, and complain of an old one.
    completion = found(group, {}, "torvyn", COMPLETE)
    script = completion.source_template % completion.source_vars()
    if screen.is_json:
        screen.document({"shell": shell, "script": script})
    else:
        screen.data(script)
    return 0
