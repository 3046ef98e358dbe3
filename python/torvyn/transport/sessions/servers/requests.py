"""What other servers ask and tell about sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torvyn.transport.sessions.servers.remote_client import RemoteClient

if TYPE_CHECKING:
    from torvyn.transport.sessions.registry import SessionRegistry
    from torvyn.transport.sessions.servers.cluster import Cluster
    from torvyn.transport.sessions.servers.control import Fields


class OwnerRequests:
    """Registers itself with the control of the cluster."""

    def __init__(self, cluster: Cluster, registry: SessionRegistry) -> None:
        self._cluster = cluster
        self._registry = registry
        cluster.control.handlers |= {
            "has": self._has,
            "attach": self._attach,
            "detach": self._detach,
            "sent": self._sent,
            "taken": self._taken,
            "left": self._left,
        }

    async def _has(self, fields: Fields) -> dict[str, Any]:
        return {"has": self._registry.owned(fields["id"]) is not None}

    async def _attach(self, fields: Fields) -> None:
        session = self._registry.owned(fields["id"])
        if session is not None:
            peers, server = self._cluster.peers, fields["from"]
            client = RemoteClient(self._cluster.control, peers, session, server, fields["token"])
            client.attach(fields["seq"])

    async def _detach(self, fields: Fields) -> None:
        if (client := self._client(fields)) is not None:
            client.detach()

    async def _sent(self, fields: Fields) -> None:
        session = self._registry.owned(fields["id"])
        if session is not None and self._client(fields) is not None:
            session.mark_sent_before(fields["seq"])

    def _client(self, fields: Fields) -> RemoteClient | None:
        session = self._registry.owned(fields["id"])
        client = None if session is None else session.client
        is_it = isinstance(client, RemoteClient) and client.token == fields["token"]
        return client if is_it and isinstance(client, RemoteClient) else None

    # To a server that reads a session

    async def _taken(self, fields: Fields) -> None:
        session = self._registry.read_here(fields["id"])
        if session is not None and session.link is not None:
            session.link.taken(fields["token"])

    async def _left(self, fields: Fields) -> None:
        session = self._registry.read_here(fields["id"])
        if session is not None:
            await self._cluster.promote(session)
