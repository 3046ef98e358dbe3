"""A client of a session of this server that is connected to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torvyn.transport.sessions.servers.control import Control
    from torvyn.transport.sessions.servers.peers import Peers
    from torvyn.transport.sessions.session import Session


class RemoteClient:
    """The session treats it as a client of its own."""

    def __init__(
        self, control: Control, peers: Peers, session: Session, server: str, token: str
    ) -> None:
        self._control = control
        self._peers = peers
        self._session = session
        self._server = server
        self.token = token
        """Names this connection of the client."""

    def attach(self, seq: int) -> None:
        self._peers.watch(self._server, self.detach)
        self._session.attach(self, seq)

    def detach(self) -> None:
        self._peers.unwatch(self._server, self.detach)
        self._session.detach(self)

    def take_over(self) -> None:
        self._peers.unwatch(self._server, self.detach)
        self._control.tell(self._server, "taken", id=self._session.id, token=self.token)

    def wake(self) -> None:
        """Tells the other server that it may take the session over."""
        if self._session.is_suspended:
            self._control.tell(self._server, "left", id=self._session.id)
