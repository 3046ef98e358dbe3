"""A component's connection to something outside: its state, for logs and statistics.

    connecting -> connected <-> waiting, rejected

A component that sets `self.connection = Connection(...)` shows its state in the flow's statistics.
A lost connection is logged once, with the reason, however often it is retried. A new reason is
logged too. A rejection is logged as an error, with a hint: it does not pass by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from torvyn._contract.enums import TextEnum

logger = logging.getLogger("torvyn.connection")


class ConnectionState(TextEnum):
    CONNECTING = "connecting"
    """The first attempt has not ended yet, or not begun."""
    CONNECTED = "connected"
    WAITING = "waiting"
    """There is no connection. The component tries again, with growing delays."""
    REJECTED = "rejected"
    """The other side answers, and does not accept us, for example our token. The component tries
    again in the same way, but somebody has to change something."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """A connection at one moment."""

    address: str
    """Without passwords."""
    state: ConnectionState
    since_s: float
    """For how many seconds it has been in this state."""
    reason: str | None
    """Why there is no connection; once it is back, why it was lost last."""
    hint: str | None
    """What to do about a rejection."""
    connects: int
    """How often the connection was established."""
    failures: int
    """How often it was lost, or could not be established."""
    away_s: float
    """The seconds in which it was waiting or rejected."""


class Connection:
    """The state of one connection. Every method may be called from any thread."""

    def __init__(
        self, component: str, address: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._component = component
        self._address = address
        self._clock = clock
        self._lock = threading.Lock()
        self._state = ConnectionState.CONNECTING
        self._changed_s = clock()
        self._reason: str | None = None
        self._cause: str | None = None
        self._hint: str | None = None
        self._connects = self._failures = 0
        self._away_s = 0.0

    @property
    def address(self) -> str:
        return self._address

    @property
    def is_connected(self) -> bool:
        return self._state is ConnectionState.CONNECTED

    @property
    def status(self) -> ConnectionStatus:
        with self._lock:
            since_s = self._clock() - self._changed_s
            return ConnectionStatus(
                address=self._address,
                state=self._state,
                since_s=since_s,
                reason=self._reason,
                hint=self._hint,
                connects=self._connects,
                failures=self._failures,
                away_s=self._away_s + (since_s if self._is_away else 0.0),
            )

    def connected(self) -> None:
        """The connection is established, and may be used."""
        with self._lock:
            if self._state is ConnectionState.CONNECTED:
                return
            away_s = self._enter(ConnectionState.CONNECTED)
            self._connects += 1
            self._hint = None
            is_back = self._reason is not None
        after = f" after {away_s:.1f} s" if is_back else ""
        self._log(logging.INFO, f"connected to {self._address}{after}")

    def lost(self, reason: str, cause: str | None = None) -> None:
        """The connection is gone, or could not be established. Call it after each failed try.
        `cause` is the reason without what differs from try to try."""
        if self._fail(ConnectionState.WAITING, reason, cause, None):
            message = f"no connection to {self._address}: {reason}; trying again"
            self._log(logging.WARNING, message, reason=reason)

    def rejected(self, reason: str, hint: str, cause: str | None = None) -> None:
        """The other side answers, and does not accept us. Call it after each failed try."""
        if self._fail(ConnectionState.REJECTED, reason, cause, hint):
            message = f"{self._address} rejects us: {reason}; trying again. Hint: {hint}"
            self._log(logging.ERROR, message, reason=reason, hint=hint)

    def _fail(
        self, state: ConnectionState, reason: str, cause: str | None, hint: str | None
    ) -> bool:
        """Returns whether this is news."""
        cause = reason if cause is None else cause
        with self._lock:
            if self._state is ConnectionState.CLOSED:
                return False
            self._failures += 1
            is_known = self._state is state and self._cause == cause
            self._reason, self._cause, self._hint = reason, cause, hint
            if self._state is not state:
                self._enter(state)
        return not is_known

    def close(self) -> None:
        """The component has ended. Nothing is logged: the flow is over."""
        with self._lock:
            if self._state is not ConnectionState.CLOSED:
                self._enter(ConnectionState.CLOSED)

    @property
    def _is_away(self) -> bool:
        # Not while connecting: a sink that connects with its first element may have none yet.
        return self._state in (ConnectionState.WAITING, ConnectionState.REJECTED)

    def _enter(self, state: ConnectionState) -> float:
        """Changes the state; returns how long the last one held."""
        now_s = self._clock()
        lasted_s = now_s - self._changed_s
        if self._is_away:
            self._away_s += lasted_s
        self._state, self._changed_s = state, now_s
        return lasted_s

    def _log(self, level: int, message: str, **fields: str) -> None:
        extra = {"event": f"connection.{self._state}", "address": self._address, **fields}
        logger.log(level, "`%s`: %s", self._component, message, extra=extra)
