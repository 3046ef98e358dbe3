"""A command: its own options, those that every command has, and the handling of its failures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from torvyn.cli.failures import exit_code_of
from torvyn.cli.screen import Screen


def command(
    name: str, *, example: str, formats: Sequence[str] = ("human", "json")
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Makes a command of a function of a `Screen` and options; its docstring is the help."""

    def make(function: Callable[..., int | None]) -> click.Command:
        @functools.wraps(function)
        def invoke(format: str, color: str, quiet: bool, verbose: int, **options: Any) -> int:
            from torvyn.observe.logs import show_logs

            screen = Screen(format, color, quiet, verbose)
            level = screen.component_log_level
            with show_logs(format, level, lambda: screen.secrets):
                return exit_code_of(lambda: function(screen, **options), screen)

        made = click.command(
            name,
            epilog="\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines()),
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )(invoke)
        made.params.extend(_shared(formats))
        return made

    return make


def _shared(formats: Sequence[str]) -> list[click.Parameter]:
    return [
        click.Option(
            ["--format"],
            type=click.Choice(formats),
            default="human",
            help="Text for people, or JSON for programs.",
        ),
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="When to use colours; NO_COLOR is heard.",
        ),
        click.Option(["-q", "--quiet"], is_flag=True, help="Only data and errors."),
        click.Option(
            ["-v", "--verbose"], count=True, help="Say more: logs, and tracebacks of components."
        ),
    ]
