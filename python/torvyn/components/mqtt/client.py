"""The paho client, whose incoming packets another reads: it is fed one packet at a time.

Overrides one private method of paho, `_sock_recv`, and calls another, `_packet_queue`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final, Protocol

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from torvyn.components.mqtt.options import Broker, BrokerLimits
from torvyn.components.mqtt.packets import DISCONNECT, PUBACK

_GOODBYE_S: Final = 1.0
_READ_BYTES: Final = 65536


class Handshake(Protocol):
    """What the broker answers to CONNECT, SUBSCRIBE and at the end."""

    def on_connack(self, refusal: str | None, is_resumed: bool, limits: BrokerLimits) -> None: ...
    def on_suback(self, packet_id: int, refusals: list[str | None]) -> None: ...
    def on_goodbye(self, reason: str) -> None: ...


class FedClient(Client):  # type: ignore[misc]
    """One connection. Used by one thread only."""

    def __init__(self, broker: Broker, handshake: Handshake) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=broker.client_id,
            clean_session=None if broker.is_v5 else broker.clean_start,
            protocol=MQTTv5 if broker.is_v5 else MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self._broker = broker
        self._handshake = handshake
        self._fed = b""
        self.connect_timeout = broker.connect_timeout_s
        self.on_connect = self._answer_connack
        self.on_subscribe = self._answer_suback
        self.on_disconnect = self._answer_disconnect
        if broker.user:
            self.username_pw_set(broker.user, broker.password or None)
        if broker.tls is not None:
            self.tls_set_context(broker.tls)
        if broker.will is not None:
            will = broker.will
            self.will_set(will.topic, will.payload, will.qos, will.retain)

    def open(self) -> None:
        """Connects and sends CONNECT; raises `OSError` or `ValueError`."""
        broker = self._broker
        properties = None
        if broker.is_v5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = broker.session_expiry_s
            properties.ReceiveMaximum = broker.receive_maximum
        # With version 3.1.1, it is an argument of the constructor.
        start = {"clean_start": broker.clean_start} if broker.is_v5 else {}
        self.connect(broker.host, broker.port, broker.keepalive_s, properties=properties, **start)

    def close(self, is_graceful: bool) -> None:
        """Closes the connection; if graceful, when the broker has handled all that was sent, and a
        DISCONNECT, after which it does not publish the will."""
        sock = self.socket()
        with contextlib.suppress(OSError, ValueError):
            if is_graceful and sock is not None:
                sock.settimeout(_GOODBYE_S)
                self.send_packets(DISCONNECT)
                # The broker closes its side.
                while sock.recv(_READ_BYTES):
                    pass
        self._sock_close()

    def feed(self, packet: bytes) -> None:
        """Handles one whole packet."""
        self._fed = packet
        self.loop_read()

    def send_packets(self, packets: bytes) -> None:
        """Sends encoded packets after those that wait already."""
        # As a PUBACK of QoS 1, paho keeps no account of it.
        self._packet_queue(PUBACK, packets, 0, 1)

    def _sock_recv(self, limit: int) -> bytes:
        fed, self._fed = self._fed[:limit], self._fed[limit:]
        if not fed:
            raise BlockingIOError
        return fed

    def _answer_connack(self, _: Any, __: Any, flags: Any, reason: Any, properties: Any) -> None:
        default = BrokerLimits()
        limits = BrokerLimits(
            getattr(properties, "ReceiveMaximum", default.receive_maximum),
            getattr(properties, "MaximumPacketSize", default.max_packet_bytes),
        )
        self._handshake.on_connack(_refusal(reason), flags.session_present, limits)

    def _answer_suback(self, _: Any, __: Any, packet_id: int, reasons: Any, ___: Any) -> None:
        self._handshake.on_suback(packet_id, [_refusal(reason) for reason in reasons])

    def _answer_disconnect(self, _: Any, __: Any, flags: Any, reason: Any, ___: Any) -> None:
        if flags.is_disconnect_packet_from_server:
            self._handshake.on_goodbye(f"the broker closed the connection: {reason}")
        elif str(reason) == "Keep alive timeout":
            self._handshake.on_goodbye("the broker was silent for too long")


def _refusal(reason: Any) -> str | None:
    return str(reason) if reason.is_failure else None
