"""Opens the services of a server, by the names that clients use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torvyn.engine.registry import open as open_engine
from torvyn.engine.service.flow_parts import parts
from torvyn.engine.service.service import Service
from torvyn.errors import LinkError, Location

if TYPE_CHECKING:
    from torvyn.link.plan import Plan
    from torvyn.manifest import Manifest, Settings


def of_engines(names: Iterable[str]) -> dict[str, Service]:
    """Each engine as it is, under its own name."""
    services: dict[str, Service] = {}
    try:
        for name in names:
            services[name] = Service(name, open_engine(name))
    except BaseException:
        close(services)
        raise
    return services


def of_manifest(manifest: Manifest, settings: Settings) -> dict[str, Service]:
    """The flows that `[serve.routes]` names, or every flow that answers requests."""
    plans = _named(manifest, settings) if manifest.serve.routes else _fitting(manifest, settings)
    services: dict[str, Service] = {}
    opened: dict[str, Service] = {}
    try:
        for route, plan in plans.items():
            # Two names of a flow share its engine.
            if plan.name not in opened:
                opened[plan.name] = Service.open(plan)
            services[route] = opened[plan.name]
    except BaseException:
        close(opened)
        raise
    return services


def close(services: dict[str, Service]) -> None:
    for service in services.values():
        service.close()


def _named(manifest: Manifest, settings: Settings) -> dict[str, Plan]:
    from torvyn.link import link

    plans = {}
    for route, flow in manifest.serve.routes.items():
        plan = link(manifest, flow, settings=settings)
        parts(plan)
        plans[route] = plan
    return plans


def _fitting(manifest: Manifest, settings: Settings) -> dict[str, Plan]:
    from torvyn.link import link

    plans = {}
    for name in manifest.flows:
        plan = link(manifest, name, settings=settings)
        try:
            parts(plan)
        except LinkError:
            continue
        plans[name] = plan
    if not plans:
        raise LinkError(
            "transport.no-flow",
            "no flow of the file answers requests",
            location=Location(manifest.file),
            hint="[request -> guards ->] engine -> guards and other parts -> `response`",
        )
    return plans
