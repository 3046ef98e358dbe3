"""`torvyn cache`: the artifacts that were fetched from registries."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.screen import Screen

if TYPE_CHECKING:
    from torvyn._artifact.cache import Cache, CachedArtifact

EPILOG = """\b
Examples:
  torvyn cache list
  torvyn cache clean --keep 3
"""


@command_group("cache", epilog=EPILOG)
def command() -> None:
    """Show and clean the cache of fetched artifacts.

    What was fetched from a registry stays in the cache, so that it runs without a network. The
    cache is bounded: what was not used for longest makes room.
    """


@make_command("list", example="torvyn cache list --format json")
def list_(screen: Screen) -> int:
    """List the artifacts, the last used first."""
    from torvyn._cli.progress import size_text
    from torvyn._cli.statistics import age, table

    cache = _cache()
    artifacts = cache.artifacts()
    if screen.is_json:
        fields = {"folder": str(cache.layout.folder), "size_bytes": cache.size_bytes()}
        screen.document(fields | {"artifacts": [_fields(each) for each in artifacts]})
    elif artifacts:
        heads = ("artifact", "digest", "signatures", "size", "used")
        rows = [
            (
                ", ".join(each.references) or "by digest",
                each.digest.removeprefix("sha256:")[:12],
                str(each.signatures),
                size_text(each.size_bytes),
                f"{age(time.time() - each.used_s)} ago",
            )
            for each in artifacts
        ]
        screen.data(table(heads, rows))
    else:
        screen.info(f"[torvyn] {cache.layout.folder} contains no artifacts.")
    return 0


@make_command("clean", example="torvyn cache clean --keep 3")
@click.option(
    "--keep",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="How many of the last used artifacts to keep.",
)
def clean(screen: Screen, keep: int) -> int:
    """Remove artifacts with their signatures.

    What runs has a copy of its own. An artifact that was removed is fetched again when it is
    needed.
    """
    from torvyn._cli.progress import size_text
    from torvyn._cli.statistics import count

    cache = _cache()
    before_bytes, removed = cache.size_bytes(), cache.artifacts()[keep:]
    cache.remove(removed)
    freed_bytes = before_bytes - cache.size_bytes()
    if screen.is_json:
        digests = [each.digest for each in removed]
        screen.document({"removed": digests, "freed_bytes": freed_bytes})
    else:
        what = f"{count(len(removed), 'artifact')}, {size_text(freed_bytes)}"
        screen.info(f"[torvyn] Removed {what}.")
    return 0


for subcommand in (list_, clean):
    command.add_command(subcommand)


def _cache() -> Cache:
    from torvyn._artifact.cache import Cache, cache_folder
    from torvyn._cli.target import machine_cache_dir

    return Cache(cache_folder(machine_cache_dir({})))


def _fields(artifact: CachedArtifact) -> dict[str, Any]:
    used = datetime.fromtimestamp(artifact.used_s, UTC).isoformat(timespec="seconds")
    fields = asdict(artifact)
    del fields["used_s"]
    return {**fields, "used": used}
