"""`torvyn cluster remove`: shows what a flow has on the broker, asks, and removes it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import click

from torvyn.cli.artifacts.progress import size_text
from torvyn.cli.screen import Screen
from torvyn.cli.summary import count, table
from torvyn.cli.target import Target
from torvyn.errors import LinkError, UsageError

if TYPE_CHECKING:
    from torvyn._link.plan import ClusterPlan
    from torvyn.cluster.removal import StoredPart

_HEADS: Final = ("name", "messages", "stored")


def remove_flow(
    screen: Screen,
    flow: str,
    *,
    is_confirmed: bool,
    manifest: str,
    namespace: str | None,
    nats: str | None,
    settings: Sequence[str],
) -> int:
    from torvyn.cluster.removal import removal_of

    cluster = _broker(screen, manifest, namespace, nats, settings)
    with removal_of(flow, cluster) as removal:
        parts = removal.find()
        if parts and not is_confirmed and not _is_wanted(screen, flow, cluster, parts):
            screen.info("[torvyn] Nothing was removed.")
            return 1
        removal.remove(parts)
    if screen.is_json:
        removed = [asdict(part) for part in parts]
        screen.document({"flow": flow, "namespace": cluster.namespace, "removed": removed})
    elif parts:
        screen.info(*(f"[torvyn] Removed {_text(part)}" for part in parts))
    else:
        where = _where(cluster)
        screen.info(f"[torvyn] The flow `{flow}` has nothing on the broker {where}.")
    return 0


def _broker(
    screen: Screen, manifest: str, namespace: str | None, nats: str | None, settings: Sequence[str]
) -> ClusterPlan:
    if nats is not None:
        settings = (*settings, f"cluster.nats={nats}")
    target = Target.of(flow_name=None, manifest=manifest, overrides=(), settings=tuple(settings))
    cluster = target.linker(screen).broker
    if not cluster.nats:
        raise LinkError(
            "link.no-broker",
            "the project has no broker",
            hint='set `nats = "nats://HOST:4222"` in `[cluster]`, or name it: --nats URL',
        )
    return cluster if namespace is None else replace(cluster, namespace=namespace)


def _is_wanted(
    screen: Screen, flow: str, cluster: ClusterPlan, parts: Sequence[StoredPart]
) -> bool:
    if screen.is_json or not sys.stdin.isatty():
        raise UsageError("cli.missing-argument", "nobody can be asked; add `--yes`")
    rows = [(part.name, str(part.messages), size_text(part.stored_bytes)) for part in parts]
    screen.info(f"[torvyn] The flow `{flow}` has on the broker {_where(cluster)}:", "")
    screen.info(table(_HEADS, rows))
    return click.confirm("Remove it?", err=True)


def _text(part: StoredPart) -> str:
    what = "saved values" if part.is_bucket else count(part.messages, "message")
    return f"{part.name}: {what}, {size_text(part.stored_bytes)}"


def _where(cluster: ClusterPlan) -> str:
    return f"in the namespace `{cluster.namespace}`" if cluster.namespace else "without a namespace"
