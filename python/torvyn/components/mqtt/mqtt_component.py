"""What the MQTT source and sink share: the link to the broker, opened in `init`, closed in
`teardown`.

They are the users of their link: it calls the `on_...` methods, on its thread.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn._contract.roles import Component
from torvyn._io.connection import Connection
from torvyn.components.config import parse_config
from torvyn.components.mqtt.link import Link
from torvyn.components.mqtt.options import Broker, BrokerLimits
from torvyn.components.mqtt.packets import Message
from torvyn.components.mqtt.subscriptions import Subscriptions
from torvyn.components.spec import Spec
from torvyn.errors import Unavailable


class MqttComponent(Component):
    """A subclass makes its broker and its state in `configure`."""

    spec: ClassVar[Spec]
    unit = "messages"

    _link: Link | None = None
    _subscriptions: Subscriptions | None = None
    connection: Connection | None = None

    def init(self, config: str) -> None:
        options = parse_config(self.spec, config)
        self.check_options(options)
        broker = self.configure(options)
        self._fails = broker.fails_when_lost
        self.connection = Connection("mqtt", broker.address)
        self._link = Link(broker, self.connection, self, self._subscriptions)
        self._link.start()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        raise NotImplementedError

    def configure(self, options: dict[str, Any]) -> Broker:
        raise NotImplementedError

    def teardown(self) -> None:
        if self._link is not None:
            # The link still sends what is waiting, so it must be there until it has stopped.
            self._link.stop()
            self._link = None
        if self.connection is not None:
            self.connection.close()

    def unavailable(self, reason: str) -> Unavailable:
        address = self.connection.address if self.connection is not None else "the broker"
        return Unavailable(f"no connection to {address}: {reason}")

    # On the link's thread

    def send(self, packets: bytes) -> None:
        if self._link is not None:
            self._link.send(packets)

    @property
    def is_full(self) -> bool:
        return False

    def on_wake(self) -> None: ...
    def on_session(self, is_resumed: bool) -> None: ...
    def on_connected(self, limits: BrokerLimits) -> None: ...
    def on_disconnected(self, reason: str) -> None: ...
    def on_acknowledgements(self, answers: list[tuple[int, int]]) -> None: ...
    def on_messages(self, messages: list[Message]) -> None: ...
