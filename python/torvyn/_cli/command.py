"""Makes a command of a function, with the options and the error handling that all commands have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from torvyn._cli.exit import exit_code_of
from torvyn._cli.screen import Screen
from torvyn.errors import UsageError


def command(
    name: str, *, example: str, formats: Sequence[str] = ("human", "json")
) -> Callable[[Callable[..., int | None]], click.Command]:
    """The function takes a `Screen` and the options; its docstring is the help text."""

    def make(function: Callable[..., int | None]) -> click.Command:
        @functools.wraps(function)
        def invoke(format: str, color: str, quiet: bool, verbose: int, **options: Any) -> int:
            from torvyn._observe.logs import show_logs

            screen = Screen(format, color, quiet, verbose)
            level = screen.component_log_level
            with show_logs(format, level, lambda: screen.secrets):
                return exit_code_of(lambda: function(screen, **options), screen)

        command = click.command(
            name,
            epilog=_epilog(example),
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )(invoke)
        command.params.extend(_shared_options(formats))
        return command

    return make


def _epilog(example: str) -> str:
    lines = example.splitlines()
    title = "Examples" if len(lines) > 1 else "Example"
    return f"\b\n{title}:\n" + "\n".join(f"  {line}" for line in lines)


def _shared_options(formats: Sequence[str]) -> list[click.Parameter]:
    return [
        click.Option(
            ["--format"],
            type=click.Choice(formats),
            default="human",
            help="The format of the output.",
        ),
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="When to use colors. `auto` also respects NO_COLOR.",
        ),
        click.Option(["-q", "--quiet"], is_flag=True, help="Print only data and errors."),
        click.Option(
            ["-v", "--verbose"],
            count=True,
            help="Print more: logs and tracebacks of components. Repeat it for debug logs.",
        ),
    ]


class CommandGroup(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            *others, last = self.commands
            message = f"there is no command `{self.name} {args[0]}`"
            hint = f"use {', '.join(others)} or {last}; see `torvyn {self.name} --help`"
            raise UsageError("cli.unknown-command", message, hint=hint)
        return super().resolve_command(ctx, args)


def command_group(name: str, *, epilog: str) -> Callable[[Callable[..., Any]], CommandGroup]:
    """Makes a group of a function whose docstring is the help text."""

    def make(function: Callable[..., Any]) -> CommandGroup:
        return click.command(
            name,
            cls=CommandGroup,
            epilog=epilog,
            no_args_is_help=False,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )(function)

    return make
