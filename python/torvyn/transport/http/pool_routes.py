"""Routes for the pools of a server: their state, and changes of their members."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from torvyn.errors import InvalidInput

if TYPE_CHECKING:
    from torvyn.engine.pool.engine import Pool
    from torvyn.transport.dispatch.service_table import ServiceTable
    from torvyn.transport.http.body_limit import BodyBudget
    from torvyn.transport.http.exchange import HttpExchange
    from torvyn.transport.settings import ServerSettings

ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    "drain": ("member",),
    "resume": ("member",),
    "remove": ("member",),
    "add": ("address",),
    "replace": ("member", "address"),
    "replace_all": (),
}
"""What a request may ask for, and the fields that it needs."""


class PoolRoutes:
    def __init__(
        self, services: ServiceTable, settings: ServerSettings, bodies: BodyBudget
    ) -> None:
        self._services = services
        self._settings = settings
        self._bodies = bodies

    async def show(self, exchange: HttpExchange) -> None:
        states = {name: pool.to_dict() for name, pool in pools_of(self._services)}
        await exchange.answer({"pools": states})

    async def change(self, exchange: HttpExchange) -> None:
        """Answers when the change is done; `replace_all` when it has begun."""
        body = await exchange.body(self._settings, self._bodies)
        if not self._settings.share.is_whole:
            raise _invalid("each of several workers has a pool of its own; run one process")
        pool = self._find(body.get("flow"))
        action, values = _parse(body)
        method = getattr(pool.membership, action)
        await asyncio.wrap_future(pool.change(lambda: method(*values)))
        await exchange.answer(pool.to_dict(), 202 if action == "replace_all" else 200)

    def _find(self, flow: object) -> Pool:
        pools = dict(pools_of(self._services))
        names = ", ".join(f"`{name}`" for name in pools) or "none"
        if flow is None and len(pools) == 1:
            return next(iter(pools.values()))
        if not isinstance(flow, str) or flow not in pools:
            raise _invalid("`flow` does not name a flow with a pool", f"the pools are {names}")
        return pools[flow]


def pools_of(services: ServiceTable) -> Iterator[tuple[str, Pool]]:
    """The services whose engine is a pool."""
    for name, service in services.items():
        if service.engine.name == "pool":
            yield name, cast("Pool", service.engine)


def _parse(body: dict[str, Any]) -> tuple[str, list[str]]:
    action = body.get("action")
    if action not in ACTIONS:
        raise _invalid("`action` is unknown or missing", f"actions are {', '.join(ACTIONS)}")
    names = ACTIONS[action]
    if unknown := sorted(set(body) - {"flow", "action", *names}):
        raise _invalid(f"`{action}` does not take `{unknown[0][:64]}`")
    for name in names:
        if not isinstance(body.get(name), str):
            raise _invalid(f"`{action}` needs the field `{name}`")
    return action, [body[name] for name in names]


def _invalid(message: str, hint: str | None = None) -> InvalidInput:
    return InvalidInput(message, hint=hint, code="engine.request-invalid")
