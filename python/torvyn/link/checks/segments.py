"""The segments of a flow that run in this process; the broker connects them with the others."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from torvyn.errors import Location
from torvyn.link.plan import Plan
from torvyn.link.segments import Segment, segments_of
from torvyn.manifest.problems import Problems, quoted, suggestion

if TYPE_CHECKING:
    from torvyn.link.overrides import Overrides

_PLACE: Final = Location("command line", path="--segment")
RUN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RUN_PLACE: Final = Location("command line", path="--run")


def select_segments(
    plan: Plan, overrides: Overrides, has_namespace: bool, problems: Problems
) -> Plan:
    """The Plan with the choice. It keeps all nodes: their edges have the same names everywhere.
    `has_namespace`: whether its namespace does not depend on where the project is."""
    known = {segment.name: segment for segment in segments_of(plan)}
    for name in overrides.segments:
        if name not in known:
            hint = suggestion(name, known, f"its segments are {quoted(known)}")
            message = f"flow `{plan.name}` has no segment `{name}`"
            problems.add("link.segment-unknown", message, _PLACE, hint)
    if overrides.run and not RUN_NAME.fullmatch(overrides.run):
        message = f"`{overrides.run}` cannot be the name of a run"
        hint = "use letters, digits, `-` and `_`, 64 at most"
        problems.add("link.bad-override", message, _RUN_PLACE, hint)
    place = _PLACE if overrides.segments or overrides.replica else _RUN_PLACE
    if plan.cluster is None:
        message = f"flow `{plan.name}` has no edge that could leave this process"
        hint = 'set `carrier = "nats"` on the edges between its segments'
        problems.add("link.no-broker", message, place, hint)
        return plan
    if not plan.cluster.nats:
        message = f"flow `{plan.name}` cannot run in several processes: it has no broker"
        hint = 'set `nats = "nats://HOST:4222"` in `[cluster]`, or start one: torvyn cluster up'
        problems.add("link.no-broker", message, place, hint)
    elif overrides.segments and not has_namespace and not _is_here(plan.cluster.nats):
        message = (
            f"the segments of flow `{plan.name}` may run on several machines, and would not find "
            f"each other: the namespace `{plan.cluster.namespace}` is that of this checkout"
        )
        hint = f'set `namespace = "{plan.cluster.project}"` in `[cluster]`'
        problems.add("link.no-namespace", message, _PLACE, hint)
    segments = tuple(dict.fromkeys(overrides.segments))
    _check_replica([known[name] for name in segments if name in known], overrides.replica, problems)
    cluster = replace(plan.cluster, segments=segments, replica=overrides.replica, run=overrides.run)
    return replace(plan, cluster=cluster)


def _is_here(addresses: str) -> bool:
    """Whether only processes of this machine reach the broker."""
    urls = (each.strip() for each in addresses.split(","))
    hosts = [urlsplit(url if "//" in url else f"//{url}").hostname or "" for url in urls]
    return all(host == "localhost" or _is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_replica(segments: Sequence[Segment], replica: int, problems: Problems) -> None:
    """A replica that does not exist would own the partitions of another one."""
    place = Location("command line", path="--replica")
    if replica and not segments:
        message = "`--replica` has no meaning without `--segment`: one process runs everything"
        problems.add("link.replica-unknown", message, place, "name the segment: --segment NAME")
    for segment in segments:
        if replica >= segment.replicas:
            message = f"segment `{segment.name}` has no replica {replica}"
            last = segment.replicas - 1
            hint = f"its replicas are 0 to {last}" if last else "it has one, replica 0"
            how = "; `place = { replicas = N }` on its node gives it more"
            problems.add("link.replica-unknown", message, place, hint + how)
