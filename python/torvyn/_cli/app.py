"""The group of commands. A command's module is imported when the command is called, not for
`--help`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from torvyn._cli.exit import exit_code_of, flush_output
from torvyn._cli.screen import Screen
from torvyn.errors import UsageError

COMMANDS: Final[dict[str, str]] = {
    "init": "Create a project from a template.",
    "check": "Check a manifest and list all problems.",
    "link": "Show the plan of a flow without running it.",
    "build": "Build the components that run in a sandbox.",
    "pack": "Pack a project or a component as an artifact.",
    "sign": "Sign an artifact, or generate a key.",
    "verify": "Verify the files and the signatures of an artifact.",
    "publish": "Publish an artifact to a registry.",
    "pull": "Fetch an artifact of a registry.",
    "cache": "Show and clean the cache of fetched artifacts.",
    "run": "Run a flow, or several in one process.",
    "serve": "Serve flows over HTTP and gRPC.",
    "reload": "Bring a running flow up to date with its files.",
    "top": "Show the running flows, and what each node uses.",
    "store": "Show and settle what a flow has stored.",
    "service": "Run a flow as a service of systemd.",
    "deploy": "Run, exchange and update projects on a gateway.",
    "fleet": "Show what runs on the devices that report.",
    "cluster": "Run a broker and Ray on this machine.",
    "keys": "Manage the API keys of a server.",
    "pool": "Show and change the members of a server's pools.",
    "trace": "Run a flow and show what happens to each element.",
    "bench": "Measure how fast a flow is.",
    "generate": "Generate an answer to a prompt.",
    "chat": "Chat with a model.",
    "inspect": "Describe a WebAssembly component or an artifact.",
    "config": "Show the settings and where each value comes from.",
    "schema": "Print the JSON Schema of Torvyn.toml, the .proto file, or the WIT packages.",
    "doctor": "Check this machine and report what is missing.",
    "completions": "Print the completion script for a shell.",
}
"""The commands and their summaries, here so that `--help` needs none of their modules."""

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
        command: click.Command = importlib.import_module(f"torvyn._cli.commands.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            unknown_command(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def show_version(context: click.Context) -> NoReturn:
    """Prints the version; with `-v` also the parts of the native module."""
    from importlib.metadata import version

    click.echo(f"torvyn {version('torvyn')}")
    if context.params.get("verbose"):
        from torvyn._io.native_parts import PARTS, built_in

        parts = built_in()
        for part, what in PARTS.items():
            click.echo(f"{part:9}{'yes' if part in parts else 'no':5}{what}")
    context.exit()


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
@click.option(
    "-v", "--verbose", is_flag=True, is_eager=True, help="With --version: what is built in."
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, is_asked: show_version(context) if is_asked else None,
    help="Show the version and exit.",
)
def group(verbose: bool) -> None:
    """Torvyn runs streaming data flows and serves language models.

    A flow is described in Torvyn.toml. For the options of a command, run `torvyn COMMAND --help`.
    """


def run(arguments: Sequence[str]) -> int:
    """Runs a command line and returns the exit code; never raises."""

    def call() -> Any:
        return group.main(list(arguments), prog_name="torvyn", standalone_mode=False)

    # Commands handle their own errors; those that arrive here are about the command line itself.
    screen = Screen.from_arguments(arguments)
    if not arguments and COMPLETE not in os.environ:
        screen.message(group.make_context("torvyn", ["--"], resilient_parsing=True).get_help())
        return UsageError.exit_code
    return flush_output(exit_code_of(call, screen), screen)
