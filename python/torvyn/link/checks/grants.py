"""Capabilities: what a component asks for, compared with what it is granted.

Asked and not granted is an error; wished and not granted, and granted and not asked, are warnings.
"""

from __future__ import annotations

import os
from pathlib import Path

from torvyn._native import CompiledComponent
from torvyn.errors import Location
from torvyn.link.component_loader import Library
from torvyn.manifest import Manifest
from torvyn.manifest.problems import Problems, quoted, suggestion

_covers = CompiledComponent.capability_covers

HARMLESS = ("clock:wall", "clock:monotonic", "random:insecure")
"""Everybody has these."""

KINDS = (
    "filesystem:read",
    "filesystem:write",
    "network:tcp-connect",
    "network:http-outgoing",
    "environment:read",
    "stdio:stdout",
    "stdio:stderr",
    "random:crypto",
    *HARMLESS,
)

_SECRET_LENGTH = 4
"""Shorter values are words like `1` and `on`: without them no message could be read."""


def granted(name: str, library: Library, place: Location, problems: Problems) -> tuple[str, ...]:
    """The component's grants with absolute paths; what it lacks becomes a problem."""
    folder = library.folder.resolve()
    record, grant = library.declared.get(name), library.grants.get(name)
    asked_at = (record and record.at("capabilities")) or place
    said = record.capabilities if record else None
    asked = _valid(said, folder, asked_at, problems, may_wish=True)
    granted_at = (grant and grant.at("capabilities")) or place
    grants = _valid(grant.capabilities if grant else None, folder, granted_at, problems)
    if said is not None:
        # A component that says nothing of itself is not compared.
        _compare(name, asked, grants, (asked_at, granted_at, folder), problems)
    problems.secrets.update(_values(grants))
    return tuple(_absolute(capability, folder) for capability in grants)


def check_grant_names(manifest: Manifest, problems: Problems) -> None:
    """Adds a problem for each grant of a component that does not exist: it grants nothing."""
    declared = [record.name for record in manifest.components]
    nodes = (node for flow in manifest.flows.values() for node in flow.nodes.values())
    # A node may name a file: its component is called by the file's name.
    files = (Path(node.component) for node in nodes if node.component)
    known = [*declared, *(file.stem for file in files if file.suffix == ".wasm")]
    for grant in manifest.security.grants.values():
        if grant.name not in known:
            listing = f"the components are {quoted(declared)}" if declared else None
            message = f"`[security.grants.{grant.name}]` names no component of this file"
            hint = suggestion(grant.name, known, listing)
            problems.add("link.grant-unknown", message, grant.location, hint)


def _compare(
    name: str,
    asked: list[str],
    grants: list[str],
    where: tuple[Location, Location, Path],
    problems: Problems,
) -> None:
    asked_at, granted_at, folder = where
    for capability in asked:
        wanted = capability.removeprefix("?")
        if any(_covers(held, wanted, folder) for held in (*grants, *HARMLESS)):
            continue
        hint = f"add it to `capabilities` of `[security.grants.{name}]`"
        if capability.startswith("?"):
            message = f"component `{name}` can do without `{wanted}`, which it is not granted"
            problems.warn("link.capability-wished", message, asked_at, hint)
        else:
            message = f"component `{name}` asks for `{wanted}`, which it is not granted"
            problems.add("link.capability-denied", message, asked_at, hint)
    for held in grants:
        # A part of it may be what was asked for: a grant is spare when no request touches it.
        if not any(_meet(held, capability.removeprefix("?"), folder) for capability in asked):
            message = f"component `{name}` is granted `{held}`, which it does not ask for"
            hint = f"take it out, or add it to `capabilities` of component `{name}`"
            problems.warn("link.capability-unasked", message, granted_at, hint)


def _meet(held: str, wanted: str, folder: Path) -> bool:
    return _covers(held, wanted, folder) or _covers(wanted, held, folder)


def _values(grants: list[str]) -> set[str]:
    """What granted variables hold now: a guest may repeat it in what it prints and answers."""
    names: set[str] = set()
    for grant in grants:
        if grant.startswith("environment:read:"):
            named = {part.strip() for part in grant.split(":", 2)[2].split(",")}
            names |= set(os.environ) if "*" in named else named
    values = (os.environ.get(name, "") for name in names)
    return {value for value in values if len(value) >= _SECRET_LENGTH}


def _valid(
    texts: tuple[str, ...] | None,
    folder: Path,
    place: Location,
    problems: Problems,
    *,
    may_wish: bool = False,
) -> list[str]:
    """Those of the texts that are capabilities."""
    found = []
    for text in texts or ():
        bare = text.removeprefix("?") if may_wish else text
        try:
            _covers(bare, bare, folder)
        except ValueError as error:
            problems.add("link.capability-bad", f"`{text}`: {error}", place, _hint(text))
        else:
            found.append(text)
    return found


def _hint(text: str) -> str:
    if text.startswith("?"):
        return "a `?` stands before what a component asks for, not before a grant"
    kind = ":".join(text.split(":")[:2])
    if kind in KINDS:
        return "they look like `stdio:stdout` or `filesystem:read:data`"
    return suggestion(kind, KINDS) or f"they begin with {quoted(KINDS, 'or')}"


def _absolute(capability: str, folder: Path) -> str:
    area, _, rest = capability.partition(":")
    if area != "filesystem":
        return capability
    verb, _, path = rest.partition(":")
    return f"{area}:{verb}:{os.path.normpath(folder / path)}"
