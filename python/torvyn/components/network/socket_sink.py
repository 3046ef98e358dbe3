"""What the sinks `tcp` and `udp` share: a connected socket that is opened when it is needed."""

from __future__ import annotations

import socket
from typing import Any, Final

from torvyn.components.config import parse_config
from torvyn.components.network.sockets import Address, parse_address, render_address
from torvyn.components.retry import RetryingSink
from torvyn.components.spec import Option

PEER_ADDRESS: Final = Option("address", "text", None, "The `host:port` to send to.", required=True)


class SocketSink(RetryingSink):
    """A subclass says how the socket is opened, in `open_socket`."""

    _socket: socket.socket | None = None

    def init(self, config: str) -> None:
        options = parse_config(self.spec, config)
        self.check_options(options)
        self._address: Address = parse_address(self.spec, options["address"])
        self.configure(options)
        self.use_connection(render_address(self._address), options["on_disconnect"])

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(cls.spec, options["address"])

    def configure(self, options: dict[str, Any]) -> None:
        """Takes the options of the subclass."""
        raise NotImplementedError

    def open_socket(self, address: Address) -> socket.socket:
        raise NotImplementedError

    def connect(self) -> socket.socket:
        """The open socket, or a new one; raises `OSError`."""
        if self._socket is None:
            self._socket = self.open_socket(self._address)
        return self._socket

    def close(self) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()
