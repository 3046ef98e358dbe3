"""Opens the services of a server, by the names that clients use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from torvyn.engine.registry import open as open_engine
from torvyn.engine.service.flow_parts import RESPONSE, service_parts
from torvyn.engine.service.service import Service
from torvyn.errors import FlowError, LinkError, Location

if TYPE_CHECKING:
    from torvyn._link.plan import Plan
    from torvyn._link.project_linker import ProjectLinker
    from torvyn._manifest.records import FlowRecord


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


def served_plans(linker: ProjectLinker) -> dict[str, Plan]:
    """The plans of the flows that `[serve.routes]` names, or of every flow that answers requests.

    A problem of a flow that is not served is a warning. Raises one error for all other problems.
    """
    routes = linker.manifest.serve.routes
    names = routes or {name: name for name in linker.manifest.flows}
    flows = linker.manifest.flows
    required = [name for name, flow in flows.items() if _is_answering(flow)]
    # If none answers, the reason may be a problem of any flow, such as a misspelt `response`.
    plans = linker.plans(tuple(routes.values()) or required or flows)
    served: dict[str, Plan] = {}
    for route, name in names.items():
        if name not in plans:
            continue
        try:
            service_parts(plans[name])
        except LinkError as error:
            linker.problems.extend(error.diagnostics if routes else ())
        else:
            served[route] = plans[name]
    linker.raise_problems()
    if not served:
        raise LinkError(
            "transport.no-flow",
            "no flow of the manifest answers requests",
            location=Location(linker.manifest.file),
            hint="a served flow is [request -> guards ->] engine -> guards -> `response`",
        )
    return served


def _is_answering(flow: FlowRecord) -> bool:
    """Whether the flow is meant to answer requests: it has the sink `response`."""
    return any(node.component == RESPONSE for node in flow.nodes.values())


def of_plans(plans: Mapping[str, Plan]) -> dict[str, Service]:
    """A service per route, opened. Two routes of one flow share its engine."""
    services: dict[str, Service] = {}
    opened: dict[str, Service] = {}
    try:
        for route, plan in plans.items():
            if plan.name not in opened:
                opened[plan.name] = Service.open(plan)
            services[route] = opened[plan.name]
    except BaseException:
        close(opened)
        raise
    return services


def adopt_plans(services: Mapping[str, Service], plans: Mapping[str, Plan]) -> None:
    """New answers go through these versions of the flows. Raises, and changes nothing, if a flow
    was added or removed, or has another engine."""
    changed = sorted(services.keys() ^ plans.keys())
    if changed:
        names = ", ".join(f"`{name}`" for name in changed)
        message = f"the served flows have changed: {names}"
        raise FlowError("swap.graph-changed", message, hint="restart the server")
    for route, plan in plans.items():
        services[route].check_engine(plan)
    for route, plan in plans.items():
        services[route].adopt(plan)


def close(services: dict[str, Service]) -> None:
    for service in services.values():
        service.close()
