"""`torvyn keys`: who may ask a server, as a file of hashes."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import duration_s
from torvyn.errors import UsageError
from torvyn.manifest.schema.tables import PRIORITIES

if TYPE_CHECKING:
    from torvyn.errors import Diagnostic
    from torvyn.manifest import Settings
    from torvyn.transport.access.audit import Audit
    from torvyn.transport.access.key_record import KeyRecord

DEFAULT: Final = "Torvyn.toml"

_MOST_DAYS: Final = 36_500

EPILOG: Final = """\b
Examples:
  torvyn keys add web --tenant shop --max-streams 8
  torvyn keys list
  torvyn keys revoke web
"""

file_option = click.option(
    "--file",
    metavar="PATH",
    help="The key file; else `keys` of `[serve]`, else one in your config folder.",
)


class Group(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            hint = "add, list or revoke; see `torvyn keys --help`"
            raise UsageError("cli.unknown-command", f"`keys` does not do `{args[0]}`", hint=hint)
        return super().resolve_command(ctx, args)


@click.command(
    "keys",
    cls=Group,
    epilog=EPILOG,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def command() -> None:
    """Say who may ask a server.

    A server that was told of a key file (`keys` of `[serve]`, or `--keys`) answers nobody without a
    key. The file holds hashes: a key is shown once, when it is made. A server that runs notices
    changes within a second or two.
    """


@make_command("add", example="torvyn keys add web --tenant shop --max-streams 8 --expires 30d")
@click.argument("name", metavar="NAME")
@click.option("--tenant", metavar="NAME", help="Whose key it is; its own name if not said.")
@click.option(
    "--max-streams", type=click.IntRange(min=1), metavar="N", help="Answers at a time, at most."
)
@click.option(
    "--requests-per-minute", type=click.IntRange(min=1), metavar="N", help="Requests, at most."
)
@click.option(
    "--tokens-per-second",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="How fast its answers come together, at most.",
)
@click.option(
    "--priority",
    type=click.Choice(PRIORITIES),
    help="The highest that its requests may ask for, and theirs if they do not.",
)
@click.option("--expires", metavar="DURATION", help="How long it is good, such as 12h or 30d.")
@file_option
def add(screen: Screen, name: str, expires: str | None, file: str | None, **limits: Any) -> int:
    """Make a key and print it, this once.

    Keys of one tenant see each other's streams; those of others do not. A limit that is not said
    is none.
    """
    from torvyn.transport.access import key_file

    path, settings = _place(file)
    audit = _audit(settings)
    lasts = None if expires is None else _lasts(expires)
    with key_file.edit(path) as keys:
        key = keys.add(name, lifetime=lasts, **limits)
        record = keys.keys[name]
    _write_down(audit, "key.added", record)
    if screen.is_json:
        screen.document({"file": str(path), "key": key, **_fields(record)})
        return 0
    screen.data(key)
    screen.say(f"[torvyn] Added `{name}` to {path}. This is its key, which is not shown again.")
    if not settings["serve.keys"]:
        screen.say(f"Servers ask for it with `--keys {path}`, or `keys` of `[serve]`.")
    return 0


@make_command("list", example="torvyn keys list --format json")
@file_option
def list_(screen: Screen, file: str | None) -> int:
    """Show the keys, by their names and limits.

    The id is the beginning of a key's hash; the audit of a server names refused keys by it.
    """
    from torvyn.cli.summary import table
    from torvyn.transport.access import key_file

    path, _ = _place(file)
    found = key_file.read(path)
    for warning in found.warnings:
        screen.say(f"[torvyn] warning: {warning}")
    records = list(found.keys.values())
    if screen.is_json:
        screen.document({"file": str(path), "keys": [_fields(record) for record in records]})
    elif records:
        heads = ("name", "tenant", "id", "created", "expires", "limits")
        screen.data(table(heads, [_row(record) for record in records]))
    else:
        screen.say(f"[torvyn] There are no keys in {path}.")
    return 0


@make_command("revoke", example="torvyn keys revoke web")
@click.argument("name", metavar="NAME")
@file_option
def revoke(screen: Screen, name: str, file: str | None) -> int:
    """Take a key back.

    A server that runs ends what runs for it within a second or two.
    """
    from torvyn.transport.access import key_file

    path, settings = _place(file)
    audit = _audit(settings)
    key_file.read(path)
    with key_file.edit(path) as keys:
        record = keys.revoke(name)
    _write_down(audit, "key.revoked", record)
    if screen.is_json:
        screen.document({"file": str(path), "revoked": _fields(record)})
    else:
        screen.say(f"[torvyn] Revoked `{name}` in {path}.")
    return 0


for part in (add, list_, revoke):
    command.add_command(part)


def _place(file: str | None) -> tuple[Path, Settings]:
    """The key file, and the settings of the project in this folder, if there is one."""
    from torvyn.manifest.settings import user_config
    from torvyn.transport.settings import path_of

    settings = _settings()
    if file is not None:
        return Path(file), settings
    if found := path_of(settings, "serve.keys", "."):
        return Path(os.path.relpath(found)), settings
    config = user_config(os.environ)
    if config is None:
        message = "there is no folder of yours to keep keys in"
        raise UsageError("cli.bad-usage", message, hint="`--file PATH` names the key file")
    return config.with_name("keys.json"), settings


def _settings() -> Settings:
    """Keys can be made where a flow cannot run: without its variables, before it is finished."""
    from torvyn.manifest.parse import parse_leniently, raise_if_any, read_text
    from torvyn.manifest.problems import Problems
    from torvyn.manifest.records import Manifest
    from torvyn.manifest.settings import resolve_leniently

    problems, manifest = Problems(), Manifest()
    if Path(DEFAULT).exists() and (text := read_text(DEFAULT, problems)) is not None:
        manifest = parse_leniently(text, problems, file=DEFAULT)
    settings = resolve_leniently(manifest, problems)
    if any(not _is_of_flows(problem) for problem in problems.diagnostics()):
        raise_if_any(problems)
    return settings


def _is_of_flows(problem: Diagnostic) -> bool:
    path = problem.location.path if problem.location is not None else None
    return path is not None and path.startswith(("flow", "component"))


def _lasts(text: str) -> timedelta:
    days = re.fullmatch(r"([0-9]{1,6})d", text)
    seconds = float(days[1]) * 86_400 if days else duration_s("--expires", text)
    if not 0 < seconds <= _MOST_DAYS * 86_400:
        message = f"`--expires`: {text} is not within 100 years"
        raise UsageError("cli.bad-value", message, hint="such as 30d")
    return timedelta(seconds=seconds)


def _audit(settings: Settings) -> Audit:
    """The file of the audit, opened: what cannot be written down is not done. Standard output is
    for the key; there it is the server that tells."""
    from torvyn.transport.access.audit import Audit
    from torvyn.transport.settings import path_of

    to = "file" if settings["serve.audit"] == "file" else "none"
    return Audit(to, path_of(settings, "serve.audit_file", "."))


def _write_down(audit: Audit, event: str, record: KeyRecord) -> None:
    audit.administered(event, key=record.name, key_id=record.id, tenant=record.tenant)


def _fields(record: KeyRecord) -> dict[str, Any]:
    """All but the hash, which nobody needs."""
    return {
        "name": record.name,
        "id": record.id,
        "tenant": record.tenant,
        "created": record.created,
        "expires": record.expires,
        "max_streams": record.max_streams,
        "requests_per_minute": record.requests_per_minute,
        "tokens_per_second": record.tokens_per_second,
        "priority": record.priority,
    }


def _row(record: KeyRecord) -> tuple[str, ...]:
    limits = [
        f"{value:g} {word}"
        for value, word in (
            (record.max_streams, "streams"),
            (record.requests_per_minute, "requests/min"),
            (record.tokens_per_second, "tokens/s"),
        )
        if value is not None
    ]
    limits += [record.priority] if record.priority else []
    dates = (record.created[:10], (record.expires or "never")[:16])
    return record.name, record.tenant, record.id, *dates, ", ".join(limits) or "none"
