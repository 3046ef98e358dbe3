"""The group of commands. A command's module is imported when it is called, never for `--help`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from torvyn.cli.failures import exit_code_of, flush_output
from torvyn.cli.screen import Screen
from torvyn.errors import UsageError

COMMANDS: Final[dict[str, str]] = {
    "init": "Start a project from a template.",
    "check": "Say everything that is wrong with a manifest.",
    "link": "Show the plan of a flow without starting it.",
    "build": "Build components that run in a sandbox.",
    "run": "Run a flow.",
    "serve": "Serve flows to clients, over HTTP and gRPC.",
    "keys": "Say who may ask a server.",
    "trace": "Run a flow and show what happened to each element.",
    "bench": "Measure a flow.",
    "generate": "Answer a prompt.",
    "chat": "Talk with a model.",
    "inspect": "Show what a WebAssembly component is.",
    "config": "Show the settings and where each came from.",
    "schema": "Print the JSON Schema of Torvyn.toml, or the .proto of gRPC.",
    "doctor": "Look at this machine and say what is missing.",
    "completions": "Print the completion script of a shell.",
}
"""The commands and their first lines, here so that `--help` needs none of their modules."""

COMPLETE: Final = "_TORVYN_COMPLETE"
"""Set by the completion scripts, which call the command without arguments."""

EPILOG: Final = """\b
Examples:
  torvyn init hello && cd hello && torvyn run
  torvyn run flow.main --stats
  torvyn check --format json
  torvyn generate "Why is the sky blue?"
"""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"torvyn.cli.commands.{name}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            unknown_command(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def unknown_command(name: str) -> NoReturn:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`torvyn --help` lists the commands"
    raise UsageError("cli.unknown-command", f"there is no command `{name}`", hint=hint)


@click.command(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="torvyn", message="torvyn %(version)s")
def group() -> None:
    """Flows of small components through which elements stream.

    A flow is described in Torvyn.toml. `torvyn COMMAND --help` explains a command.
    """


def run(arguments: Sequence[str]) -> int:
    """Runs a command line; gives the exit code, whatever happens."""

    def call() -> Any:
        return group.main(list(arguments), prog_name="torvyn", standalone_mode=False)

    # Commands handle their own errors; what arrives here is about the command line itself.
    screen = Screen.guessed(arguments)
    if not arguments and COMPLETE not in os.environ:
        screen.note(group.make_context("torvyn", ["--"], resilient_parsing=True).get_help())
        return UsageError.exit_code
    return flush_output(exit_code_of(call, screen), screen)
