"""A command with subcommands, such as `torvyn keys add`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from torvyn.errors import UsageError


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
