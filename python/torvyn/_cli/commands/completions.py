"""`torvyn completions`: prints the script with which a shell completes Torvyn's commands."""

from __future__ import annotations

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen

EXAMPLE = """\
torvyn completions bash >> ~/.bashrc
torvyn completions zsh >> ~/.zshrc
torvyn completions fish > ~/.config/fish/completions/torvyn.fish"""


@make_command("completions", example=EXAMPLE)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def command(screen: Screen, shell: str) -> int:
    """Print the completion script for a shell.

    SHELL is bash, zsh or fish. Add the output to the shell's configuration, as in the example.
    """
    from click.shell_completion import get_completion_class

    from torvyn._cli.app import COMPLETE, group

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    # `source()` would also check the version of the bash on the path.
    completion = completion_class(group, {}, "torvyn", COMPLETE)
    script = completion.source_template % completion.source_vars()
    if screen.is_json:
        screen.document({"shell": shell, "script": script})
    else:
        screen.data(script)
    return 0
