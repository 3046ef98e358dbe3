"""A session that another server generates, while a client reads it here.

Its frames come from the broker. The server that generates it is told how far the client has read,
so that the answer keeps the client's pace. When that server is gone, this one takes over.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.nats import BrokerConnection, BrokerUnavailable
from torvyn.transport.sessions.shared.follower import Follower
from torvyn.transport.sessions.shared.frame_log import FrameLog, FrameMessage, new_frames
from torvyn.transport.settings import KiB

if TYPE_CHECKING:
    from torvyn.transport.sessions.servers.control import Control
    from torvyn.transport.sessions.servers.peers import Peers
    from torvyn.transport.sessions.session import Session
    from torvyn.transport.sessions.shared.records import SessionRecord

_READ_S: Final = 5.0
_TELL_BYTES: Final = 16 * KiB
_TELL_S: Final = 0.05
"""How far the client has read is told after so many bytes, or so much time."""


class OwnerLink:
    def __init__(
        self,
        broker: BrokerConnection,
        log: FrameLog,
        control: Control,
        peers: Peers,
        session: Session,
        owner: str,
        on_unused: Callable[[Session], None],
        on_gone: Callable[[Session], None],
    ) -> None:
        self._control = control
        self._peers = peers
        self._session = session
        self.owner = owner
        self._on_unused = on_unused
        self._call_gone = on_gone
        self._follower = Follower(broker, log, session.id, self._take)
        self.is_damaged = False
        self.observers = 0
        self._token = ""
        self._seq = self._untold_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, record: SessionRecord) -> None:
        """Reads what is there. Raises `BrokerUnavailable` or `Refused`."""
        if record.start:
            self._session.fill([record.start.encode()])
        await self._follower.open()
        self._peers.watch(self.owner, self._on_gone)
        try:
            await asyncio.wait_for(self._follower.is_caught_up.wait(), _READ_S)
        except TimeoutError:
            raise BrokerUnavailable("the frames of a session are not delivered") from None

    def close(self) -> None:
        self._follower.close()
        self._peers.unwatch(self.owner, self._on_gone)
        self._cancel_timer()

    def follow(self, owner: str) -> None:
        """Another server has taken the session over."""
        self._peers.unwatch(self.owner, self._on_gone)
        self.owner = owner
        self._peers.watch(owner, self._on_gone)
        if self._session.client is not None:
            self.attached(self._session.unread)

    def control(self, kind: str, **fields: Any) -> None:
        """Stops, cancels or updates the answer."""
        session = self._session
        tenant = session.caller.tenant
        self._control.tell(self.owner, kind, id=session.id, tenant=tenant, **fields)

    # What the session says

    def attached(self, seq: int) -> None:
        self._token = secrets.token_hex(8)
        self._seq, self._untold_bytes = seq, 0
        self._tell("attach", seq=seq)

    def detached(self) -> None:
        self._cancel_timer()
        self._tell("detach")
        self.release()

    def release(self) -> None:
        """Called when a reader has left."""
        if self._session.client is None and not self.observers:
            self._on_unused(self._session)

    def sent(self, seq: int, size_bytes: int) -> None:
        self._seq = seq
        self._untold_bytes += size_bytes
        if self._untold_bytes >= _TELL_BYTES:
            self._tell_sent()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TELL_S, self._tell_sent)

    # What the broker and the other server say

    def _take(self, number: int, data: bytes) -> None:
        message = FrameMessage.parse(data)
        session = self._session
        new = new_frames(session.buffer, message)
        if new is None:
            self.is_damaged = True
            self._on_gone()
            return
        session.fill(new)
        if message.is_over:
            session.buffer.end()

    def taken(self, token: str) -> None:
        """Another connection reads the session."""
        if token == self._token and self._session.client is not None:
            self._session.client.take_over()

    def _on_gone(self) -> None:
        if not self._session.is_over:
            self._call_gone(self._session)

    def _tell_sent(self) -> None:
        self._cancel_timer()
        self._untold_bytes = 0
        self._tell("sent", seq=self._seq)

    def _tell(self, kind: str, **fields: Any) -> None:
        self._control.tell(self.owner, kind, id=self._session.id, token=self._token, **fields)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
