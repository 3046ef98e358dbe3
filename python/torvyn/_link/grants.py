"""Capabilities: compares what a component requests with what it is granted.

A request without a grant is an error. An optional request (`?`) without a grant is a warning, and
so is a grant without a request.
"""

from __future__ import annotations

import os
from pathlib import Path

from torvyn import _native
from torvyn._link.component_library import Library, artifact_name
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import Manifest
from torvyn.errors import Location, quoted, suggestion

ALWAYS_GRANTED = ("clock:wall", "clock:monotonic", "random:insecure")
"""The capabilities that every component has."""

KINDS = (
    "filesystem:read",
    "filesystem:write",
    "network:tcp-connect",
    "network:http-outgoing",
    "environment:read",
    "stdio:stdout",
    "stdio:stderr",
    "random:crypto",
    *ALWAYS_GRANTED,
)

_SECRET_LENGTH = 4
"""Shorter values are words such as `1` and `on`; without them messages would be unreadable."""


def resolve_grants(
    name: str, library: Library, location: Location, problems: Problems
) -> tuple[str, ...]:
    """The component's grants with absolute paths. Adds a problem for each missing grant."""
    folder = library.folder.resolve()
    record, grant = library.declared.get(name), library.grants.get(name)
    requested_at = (record and record.at("capabilities")) or location
    texts = record.capabilities if record else None
    requests = _valid(texts, folder, requested_at, problems, may_be_optional=True)
    granted_at = (grant and grant.at("capabilities")) or location
    grants = _valid(grant.capabilities if grant else None, folder, granted_at, problems)
    if texts is not None:
        # A component without `capabilities` is not compared.
        _compare(name, requests, grants, (requested_at, granted_at, folder), problems)
    problems.secrets.update(_values(grants))
    return tuple(_absolute(capability, folder) for capability in grants)


def check_grant_names(manifest: Manifest, problems: Problems) -> None:
    """Adds a problem for each grant to a component that does not exist."""
    declared = [record.name for record in manifest.components]
    nodes = (node for flow in manifest.flows.values() for node in flow.nodes.values())
    named = [node.component for node in nodes if node.component]
    # The component of a node that names a file has the name of the file; of one that names an
    # artifact, that of the artifact.
    files = [Path(text).stem for text in named if text.endswith(".wasm")]
    artifacts = [artifact_name(text) for text in named if text.startswith("oci:")]
    known = [*declared, *files, *artifacts]
    for grant in manifest.security.grants.values():
        if grant.name not in known:
            listing = f"the components are {quoted(declared)}" if declared else None
            message = f"`[security.grants.{grant.name}]` names an unknown component"
            hint = suggestion(grant.name, known, listing)
            problems.add("link.grant-unknown", message, grant.location, hint)


def _compare(
    name: str,
    requests: list[str],
    grants: list[str],
    where: tuple[Location, Location, Path],
    problems: Problems,
) -> None:
    requested_at, granted_at, folder = where
    for capability in requests:
        request = capability.removeprefix("?")
        if any(_covers(grant, request, folder) for grant in (*grants, *ALWAYS_GRANTED)):
            continue
        hint = f"add it to `capabilities` of `[security.grants.{name}]`"
        if capability.startswith("?"):
            message = f"component `{name}` is not granted `{request}`, which is optional"
            problems.warn("link.capability-wished", message, requested_at, hint)
        else:
            message = f"component `{name}` requests `{request}`, which it is not granted"
            problems.add("link.capability-denied", message, requested_at, hint)
    for grant in grants:
        # A grant may be wider than a request; it is unused only if no request overlaps it.
        if not any(
            _overlap(grant, capability.removeprefix("?"), folder) for capability in requests
        ):
            message = f"component `{name}` is granted `{grant}`, which it does not request"
            hint = f"remove it, or add it to `capabilities` of component `{name}`"
            problems.warn("link.capability-unasked", message, granted_at, hint)


def _covers(grant: str, request: str, folder: Path) -> bool:
    return _native.CompiledComponent.capability_covers(grant, request, folder)


def _overlap(grant: str, request: str, folder: Path) -> bool:
    return _covers(grant, request, folder) or _covers(request, grant, folder)


def _values(grants: list[str]) -> set[str]:
    """The values of granted variables, which a guest may print or send."""
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
    location: Location,
    problems: Problems,
    *,
    may_be_optional: bool = False,
) -> list[str]:
    """The texts that are capabilities."""
    found = []
    for text in texts or ():
        bare = text.removeprefix("?") if may_be_optional else text
        try:
            _covers(bare, bare, folder)
        except ValueError as error:
            problems.add("link.capability-bad", f"`{text}`: {error}", location, _hint(text))
        else:
            found.append(text)
    return found


def _hint(text: str) -> str:
    if text.startswith("?"):
        return "a `?` marks an optional request of a component; a grant has none"
    kind = ":".join(text.split(":")[:2])
    if kind in KINDS:
        return "write it like `stdio:stdout` or `filesystem:read:data`"
    return suggestion(kind, KINDS) or f"a capability starts with {quoted(KINDS, 'or')}"


def _absolute(capability: str, folder: Path) -> str:
    area, _, rest = capability.partition(":")
    if area != "filesystem":
        return capability
    verb, _, path = rest.partition(":")
    return f"{area}:{verb}:{os.path.normpath(folder / path)}"
