"""`torvyn keys`: manages a server's API keys in a file of hashes."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.screen import Screen
from torvyn._cli.target import duration_s
from torvyn._manifest.records import PRIORITIES
from torvyn.errors import UsageError
from torvyn.transport.access.key_record import ADMIN, SCOPES

if TYPE_CHECKING:
    from torvyn._manifest.settings import Settings
    from torvyn.errors import Diagnostic
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
    help="The key file; by default `keys` of `[serve]`, else keys.json in your config folder.",
)


@command_group("keys", epilog=EPILOG)
def command() -> None:
    """Manage the API keys of a server.

    A server with a key file (`keys` of `[serve]`, or `--keys`) rejects requests without a valid
    key. The file contains only hashes: a key is shown once, when you add it. A running server
    applies changes within two seconds.
    """


@make_command("add", example="torvyn keys add web --tenant shop --max-streams 8 --expires 30d")
@click.argument("name", metavar="NAME")
@click.option(
    "--tenant", metavar="NAME", help="The owner of the key; by default the name of the key."
)
@click.option(
    "--max-streams", type=click.IntRange(min=1), metavar="N", help="Maximum concurrent answers."
)
@click.option(
    "--requests-per-minute", type=click.IntRange(min=1), metavar="N", help="Maximum request rate."
)
@click.option(
    "--tokens-per-second",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Maximum token rate of all its answers together.",
)
@click.option(
    "--priority",
    type=click.Choice(PRIORITIES),
    help="The highest priority of its requests, and their default.",
)
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help="`admin` may also read /metrics and /flows, which show the requests of all keys.",
)
@click.option(
    "--expires", metavar="DURATION", help="How long the key is valid, such as 12h or 30d."
)
@file_option
def add(screen: Screen, name: str, expires: str | None, file: str | None, **limits: Any) -> int:
    """Add a key and print it.

    The key is shown only this once. Keys of the same tenant can resume and observe each other's
    streams. Without limits, the key is unlimited.
    """
    from torvyn.transport.access import key_file

    path, settings = _key_file(file)
    audit = _audit(settings)
    lasts = None if expires is None else _lifetime(expires)
    with key_file.edit(path) as keys:
        key = keys.add(name, lifetime=lasts, **limits)
        record = keys.keys[name]
    _audit_change(audit, "key.added", record)
    if screen.is_json:
        screen.document({"file": str(path), "key": key, **_fields(record)})
        return 0
    screen.data(key)
    screen.info(f"[torvyn] Added `{name}` to {path}. Save the key now; it is not shown again.")
    if not settings["serve.keys"]:
        hint = f"`torvyn serve --keys {path}`, or set `keys` of `[serve]`"
        screen.info(f"To require keys, start the server with {hint}.")
    return 0


@make_command("list", example="torvyn keys list --format json")
@file_option
def list_(screen: Screen, file: str | None) -> int:
    """List the keys with their limits.

    The id is the beginning of the key's hash; a server's audit log names rejected keys by it.
    """
    from torvyn._cli.statistics import table
    from torvyn.transport.access import key_file

    path, _ = _key_file(file)
    keys = key_file.read(path)
    for warning in keys.warnings:
        screen.info(f"[torvyn] warning: {warning}")
    records = list(keys.keys.values())
    if screen.is_json:
        screen.document({"file": str(path), "keys": [_fields(record) for record in records]})
    elif records:
        heads = ("name", "tenant", "id", "created", "expires", "limits")
        screen.data(table(heads, [_row(record) for record in records]))
    else:
        screen.info(f"[torvyn] {path} contains no keys.")
    return 0


@make_command("revoke", example="torvyn keys revoke web")
@click.argument("name", metavar="NAME")
@file_option
def revoke(screen: Screen, name: str, file: str | None) -> int:
    """Revoke a key.

    A running server ends the key's streams within two seconds.
    """
    from torvyn.transport.access import key_file

    path, settings = _key_file(file)
    audit = _audit(settings)
    key_file.read(path)
    with key_file.edit(path) as keys:
        record = keys.revoke(name)
    _audit_change(audit, "key.revoked", record)
    if screen.is_json:
        screen.document({"file": str(path), "revoked": _fields(record)})
    else:
        screen.info(f"[torvyn] Revoked `{name}` in {path}.")
    return 0


for subcommand in (add, list_, revoke):
    command.add_command(subcommand)


def _key_file(file: str | None) -> tuple[Path, Settings]:
    """The path of the key file, and the settings of the project in this folder, if any."""
    from torvyn._manifest.settings import user_config
    from torvyn.transport.settings import path_of

    settings = _settings()
    if file is not None:
        return Path(file), settings
    if path := path_of(settings, "serve.keys", "."):
        return Path(os.path.relpath(path)), settings
    config = user_config(os.environ)
    if config is None:
        message = "cannot find your config folder for the key file"
        raise UsageError("cli.bad-usage", message, hint="name the key file with `--file PATH`")
    return config.with_name("keys.json"), settings


def _settings() -> Settings:
    """Ignores problems of flows and components: keys can be added before a flow can run."""
    from torvyn._manifest.parse import parse_leniently, raise_if_any, read_text
    from torvyn._manifest.problems import Problems
    from torvyn._manifest.records import Manifest
    from torvyn._manifest.settings import resolve_leniently

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


def _lifetime(text: str) -> timedelta:
    days = re.fullmatch(r"([0-9]{1,6})d", text)
    seconds = float(days[1]) * 86_400 if days else duration_s("--expires", text)
    if not 0 < seconds <= _MOST_DAYS * 86_400:
        message = f"`--expires`: {text} is not between 0 and 100 years"
        raise UsageError("cli.bad-value", message, hint="for example 30d")
    return timedelta(seconds=seconds)


def _audit(settings: Settings) -> Audit:
    """The audit log, opened before the change: a change that cannot be logged is not made. An audit
    on standard output belongs to the server; here, standard output is for the key."""
    from torvyn.transport.access.audit import Audit
    from torvyn.transport.settings import path_of

    to = "file" if settings["serve.audit"] == "file" else "none"
    return Audit(to, path_of(settings, "serve.audit_file", "."))


def _audit_change(audit: Audit, event: str, record: KeyRecord) -> None:
    audit.administered(event, key=record.name, key_id=record.id, tenant=record.tenant)


def _fields(record: KeyRecord) -> dict[str, Any]:
    """All fields except the hash."""
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
        "scope": record.scope or SCOPES[0],
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
    limits += [ADMIN] if record.scope == ADMIN else []
    dates = (record.created[:10], (record.expires or "never")[:16])
    return record.name, record.tenant, record.id, *dates, ", ".join(limits) or "none"
