"""The thread that keeps one connection to a broker: it connects, reads, writes and connects again.

Every call of the user happens on this thread, so the user needs no locks. Other threads may only
`wake` it.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Final, Protocol

from torvyn._io.backoff import Backoff
from torvyn._io.connection import Connection
from torvyn._io.packages import import_package
from torvyn._io.restart import keep_running
from torvyn.components.mqtt.options import Broker, BrokerLimits
from torvyn.components.mqtt.packets import PINGREQ
from torvyn.components.mqtt.reader import PacketReader, Receiver
from torvyn.components.mqtt.subscriptions import Subscriptions
from torvyn.errors import os_reason

_READ_BYTES: Final = 65536
_TICK_S: Final = 1.0
"""How often the keep-alive is looked at."""
_JOIN_S: Final = 2.0
_TEMPORARY: Final = frozenset(
    {
        "Unspecified error",
        "Implementation specific error",
        "Server unavailable",
        "Server busy",
        "Quota exceeded",
        "Connection rate exceeded",
    }
)
"""Refusals that say nothing about us."""
_LOGIN_HINT: Final = "check `user`, `password` and `client_id`, and what the broker allows them"
_TOPICS_HINT: Final = "check `topics`, and which of them the broker allows this user to read"
_TAKEN_OVER_HINT: Final = (
    "another client may use the same `client_id`: the broker then disconnects the older one; give "
    "each its own"
)
_SHORT_S: Final = 10.0
_TAKE_OVERS: Final = 3
"""So many connections in a row that were accepted and soon lost are hardly an outage."""


class LinkUser(Receiver, Protocol):
    """The source or the sink."""

    def on_session(self, is_resumed: bool) -> None:
        """The broker has accepted us. If the session is resumed, it sends again what was not
        acknowledged."""

    def on_connected(self, limits: BrokerLimits) -> None: ...
    def on_disconnected(self, reason: str) -> None: ...
    def on_wake(self) -> None: ...
    @property
    def is_full(self) -> bool:
        """Whether nothing more may be read for now."""


class Lost(Exception):
    """The connection is over; the text says why, and the hint what to do if the broker rejects
    us."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


class Link:
    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        user: LinkUser,
        subscriptions: Subscriptions | None = None,
    ) -> None:
        # Here and not on the thread, so that a missing package is an error of the start.
        self._clients = import_package("torvyn.components.mqtt.client", "`mqtt`", "mqtt")
        self.is_ready = False
        """Whether the broker has accepted us, and our subscriptions."""
        self._broker = broker
        self._connection = connection
        self._user = user
        self._subscriptions = subscriptions
        self._client: Any = None
        self._reader: PacketReader | None = None
        self._limits = BrokerLimits()
        self._lost: Lost | None = None
        self._accepted_s: float | None = None
        """When the broker accepted this connection."""
        self._short_connections = 0
        self._backoff = Backoff()
        self._looked_s = 0.0
        self._is_stopping = self._is_woken = False
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="torvyn-mqtt", daemon=True)

    # From any thread

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Makes the thread call `on_wake`."""
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(OSError):
                self._wake_writer.send(b"\0")

    def stop(self) -> None:
        """Disconnects after what is waiting was sent, and waits for that for a moment."""
        self._is_stopping = True
        self._is_woken = False
        self.wake()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    # On the thread, for the user

    def send(self, packets: bytes) -> None:
        if self._client is not None and packets:
            self._client.send_packets(packets)

    def unsubscribe(self, filters: list[str]) -> None:
        if self._client is not None:
            self._client.unsubscribe(filters)

    def drop(self, reason: str, hint: str | None = None) -> None:
        """Ends the connection, and connects again."""
        self._lost = Lost(reason, hint)

    # On the thread

    def _run(self) -> None:
        with self._selector, self._wake_reader, self._wake_writer:
            keep_running(self._keep_connection, self._sleep, self._fail)

    def _keep_connection(self) -> None:
        while not self._is_stopping:
            try:
                self._serve()
            except Lost as lost:
                self._report(lost)
                self._user.on_disconnected(str(lost))
            self._close()
            self._sleep(self._backoff.next_delay_s())

    def _fail(self, reason: str) -> None:
        """Something that nobody expected counts as a lost connection, too."""
        self._connection.lost(reason)
        try:
            self._user.on_disconnected(reason)
        finally:
            self._close()

    def _report(self, lost: Lost) -> None:
        is_cut_short = lost.hint is None and self._is_short
        self._short_connections = self._short_connections + 1 if is_cut_short else 0
        is_taken_over = self._short_connections >= _TAKE_OVERS
        hint = lost.hint or (_TAKEN_OVER_HINT if is_taken_over else None)
        if hint is None:
            self._connection.lost(str(lost))
        else:
            self._connection.rejected(str(lost), hint)

    @property
    def _is_short(self) -> bool:
        """Whether the broker accepted this connection a moment ago."""
        return self._accepted_s is not None and time.monotonic() - self._accepted_s < _SHORT_S

    def _serve(self) -> None:
        """One connection, until it is lost or the link is stopped."""
        sock = self._connect()
        give_up_s = time.monotonic() + self._broker.connect_timeout_s
        interest = 0
        while not self._is_stopping:
            wanted = self._interest()
            if wanted != interest:
                interest = self._listen(sock, wanted)
            self._step(sock)
            # Two clients with one name would otherwise take turns twice a second.
            if self.is_ready and not (self._short_connections and self._is_short):
                self._backoff.reset()
            if not self.is_ready and time.monotonic() > give_up_s:
                raise Lost(f"the broker did not answer within {self._broker.connect_timeout_s:g} s")
        # What was acknowledged just before the stop.
        self._user.on_wake()

    def _interest(self) -> int:
        reads = 0 if self.is_ready and self._user.is_full else selectors.EVENT_READ
        return reads | (selectors.EVENT_WRITE if self._client.want_write() else 0)

    def _listen(self, sock: Any, wanted: int) -> int:
        # No event is wanted while the user is full and there is nothing to write.
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(sock)
        if wanted:
            self._selector.register(sock, wanted)
        return wanted

    def _step(self, sock: Any) -> None:
        for key, mask in self._selector.select(_TICK_S):
            if key.fileobj is self._wake_reader:
                self._on_wake()
            elif mask & selectors.EVENT_READ:
                self._read(sock)
        client = self._client
        if client.want_write():
            client.loop_write()
        self._keep_alive()
        if self._lost is not None or client.socket() is None:
            raise self._lost or Lost("the connection was closed")

    def _on_wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_reader.recv(4096)
        # Only now: a wake-up before the read would set it, and lose its byte to the read.
        self._is_woken = False
        self._user.on_wake()

    def _keep_alive(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < _TICK_S:
            return
        if not self._user.is_full:
            self._looked_s = now_s
            self._client.loop_misc()
        elif now_s - self._looked_s >= self._broker.keepalive_s / 2:
            # Its answers are not read now, so paho must not wait for them.
            self._looked_s = now_s
            self._client.send_packets(PINGREQ)

    def _read(self, sock: Any) -> None:
        assert self._reader is not None
        try:
            data = sock.recv(_READ_BYTES)
            # What TLS has decrypted, and `select` does not see.
            while data and getattr(sock, "pending", int)():
                data += sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise Lost(os_reason(error)) from error
        if not data:
            raise Lost("the broker closed the connection")
        try:
            self._reader.feed(data)
        except (ValueError, IndexError) as error:
            raise Lost(f"the broker sent something that is not MQTT: {error}") from error

    def _connect(self) -> Any:
        self._lost = self._accepted_s = None
        self._client = client = self._clients.FedClient(self._broker, self)
        self._reader = PacketReader(self._broker.is_v5, self._user, client.feed)
        try:
            client.open()
        except ssl.SSLCertVerificationError as error:
            raise Lost(f"its certificate is not trusted: {error.verify_message}") from error
        except (OSError, ValueError) as error:
            raise Lost(os_reason(error)) from error
        sock = client.socket()
        if sock is None:
            # paho closes a connection that breaks while CONNECT is written, and raises nothing.
            more = "" if self._broker.tls is None else "; it may want a client certificate"
            raise Lost(f"the broker closed the connection at once{more}")
        return sock

    def _close(self) -> None:
        client, self._client = self._client, None
        self.is_ready = False
        for key in [*self._selector.get_map().values()]:
            if key.fileobj is not self._wake_reader:
                self._selector.unregister(key.fileobj)
        if client is not None:
            client.close(is_graceful=self._is_stopping)

    def _sleep(self, delay_s: float) -> bool:
        """Returns whether the link was stopped."""
        until_s = time.monotonic() + delay_s
        while not self._is_stopping and (left_s := until_s - time.monotonic()) > 0:
            if self._selector.select(left_s):
                self._on_wake()
        return self._is_stopping

    # The answers of the broker

    def on_connack(self, refusal: str | None, is_resumed: bool, limits: BrokerLimits) -> None:
        if refusal is not None:
            hint = None if refusal in _TEMPORARY else _LOGIN_HINT
            self.drop(f"the broker refused the connection: {refusal}", hint)
            return
        self._limits, self._accepted_s = limits, time.monotonic()
        self._user.on_session(is_resumed)
        if self._subscriptions is None or not self._subscriptions.send(self._client, is_resumed):
            self._on_ready()

    def on_suback(self, packet_id: int, refusals: list[str | None]) -> None:
        assert self._subscriptions is not None
        refusal = self._subscriptions.refusal(packet_id, refusals)
        if refusal is not None:
            self.drop(refusal, _TOPICS_HINT)
        else:
            self._on_ready()

    def on_goodbye(self, reason: str) -> None:
        self._lost = self._lost or Lost(reason)

    def _on_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self._connection.connected()
            self._user.on_connected(self._limits)
