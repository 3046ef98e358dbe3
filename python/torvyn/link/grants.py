"""Capabilities: what a component asks for, compared with what it is granted.

Asked and not granted is an error. What a wish or a spare grant is worth saying is said in the log:
it stops nothing.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from torvyn._native import capability_covers
from torvyn.errors import Location
from torvyn.link.loading import Library
from torvyn.manifest.problems import Problems

logger = logging.getLogger("torvyn.link")

HARMLESS = ("clock:wall", "clock:monotonic", "random:insecure")
"""Everybody has these."""


def granted(name: str, library: Library, place: Location, problems: Problems) -> tuple[str, ...]:
    """The component's grants with absolute paths; what it lacks becomes a problem."""
    folder = library.folder.resolve()
    record, grant = library.declared.get(name), library.grants.get(name)
    asked_at = (record and record.at("capabilities")) or place
    asked = _valid(record.capabilities if record else None, folder, asked_at, problems)
    granted_at = (grant and grant.at("capabilities")) or place
    grants = _valid(grant.capabilities if grant else None, folder, granted_at, problems)
    for capability in asked:
        wanted = capability.removeprefix("?")
        covered = any(capability_covers(held, wanted, folder) for held in (*grants, *HARMLESS))
        if covered:
            continue
        if capability.startswith("?"):
            logger.warning("component `%s` can do without `%s`, which it lacks", name, wanted)
            continue
        message = f"component `{name}` asks for `{wanted}`, which it is not granted"
        hint = f"add it to `capabilities` of `[security.grants.{name}]`"
        problems.add("link.capability-denied", message, asked_at, hint)
    return tuple(_absolute(capability, folder) for capability in grants)


def _valid(
    texts: tuple[str, ...] | None, folder: Path, place: Location, problems: Problems
) -> list[str]:
    """Those of the texts that are capabilities."""
    found = []
    for text in texts or ():
        bare = text.removeprefix("?")
        try:
            capability_covers(bare, bare, folder)
        except ValueError as error:
            hint = "they look like `stdio:stdout` or `filesystem:read:data`"
            problems.add("link.capability-bad", f"`{text}`: {error}", place, hint)
        else:
            found.append(text)
    return found


def _absolute(capability: str, folder: Path) -> str:
    area, _, rest = capability.partition(":")
    if area != "filesystem":
        return capability
    verb, _, path = rest.partition(":")
    return f"{area}:{verb}:{os.path.normpath(folder / path)}"
