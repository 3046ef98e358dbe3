"""Stops, cancels and updates answers that other servers generate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.nats import BrokerUnavailable, Conflict, Refused
from torvyn.transport.access.caller import Caller
from torvyn.transport.sessions.servers.control import ALL, NoAnswer
from torvyn.transport.sessions.shared.patience import broker_away

if TYPE_CHECKING:
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.sessions.registry import SessionRegistry
    from torvyn.transport.sessions.servers.cluster import Cluster
    from torvyn.transport.sessions.servers.control import Fields
    from torvyn.transport.sessions.shared.records import SessionRecord

_ANYONE_S: Final = 0.5
"""How long all servers have to say that a stream without a session is theirs."""


class RemoteCalls:
    def __init__(self, cluster: Cluster, registry: SessionRegistry, running: RunningCalls) -> None:
        self._cluster = cluster
        self._registry = registry
        self._running = running
        for kind in ("stop", "cancel", "update"):
            cluster.control.handlers[kind] = self._on_request

    async def stop(self, id: str, caller: Caller, kind: str) -> dict[str, Any] | None:
        """What became of a stream of the caller's tenant: stopped, cancelled or forgotten; None if
        no server has it. `kind` is `stop` or `cancel`."""
        await self._cluster.connect()
        fields: dict[str, Any] = {"id": id, "tenant": caller.tenant}
        control = self._cluster.control
        record: SessionRecord | None = None
        try:
            record = await self._cluster.store.records.get(id)
            if record is None:
                return await control.ask(ALL, kind, _ANYONE_S, **fields)
            if record.tenant != caller.tenant:
                return None
            if not await self._cluster.is_alive(record):
                return await self._forget(record)
            return await control.ask(record.owner, kind, **fields)
        except NoAnswer:
            if record is None:
                return None
            raise broker_away() from None
        except (BrokerUnavailable, Refused):
            raise broker_away() from None

    async def _forget(self, record: SessionRecord) -> dict[str, Any] | None:
        """Deletes a session whose owner is gone."""
        try:
            await self._cluster.store.records.put(replace(record, owner=self._cluster.server))
        except Conflict:
            return None  # a client has come back to it
        await self._cluster.store.drop(record.id)
        return {"forgotten": True}

    async def _on_request(self, fields: Fields) -> dict[str, Any] | None:
        """Another server asks. A server that does not have the stream says nothing."""
        caller = Caller(tenant=fields["tenant"])
        id, kind = fields["id"], fields["kind"]
        call = self._running.find(id, caller)
        session = self._registry.owned(id)
        if call is None:
            if session is None or session.caller.tenant != caller.tenant or kind == "update":
                return None
            await self._registry.forget(session)
            return {"forgotten": True}
        if kind == "update":
            call.update(stop=fields.get("stop"), max_tokens=fields.get("max_tokens"))
            return {"updated": True}
        return await self._registry.stop(call, kind == "cancel")
