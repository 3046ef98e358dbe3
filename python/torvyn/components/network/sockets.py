"""Addresses and sockets for components."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Final

from torvyn.components.config import wrong_config
from torvyn.components.spec import Spec

Address = tuple[str, int]
MAX_PORT: Final = 65535
KEEPALIVE_IDLE_S: Final = 60


def parse_address(spec: Spec, text: str, default_port: int | None = None) -> Address:
    """`host:port`, `[ipv6]:port`, or a host alone where there is a default port."""
    host, _, port = text.rpartition(":")
    if default_port is not None and (not host or text.endswith("]")):
        host, port = text, str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        hint = 'write it as "host:port", such as "127.0.0.1:9000" or "[::1]:9000"'
        raise wrong_config(spec, f"{text!r} is not an address", hint)
    return host, int(port)


def render_address(address: tuple[str | int, ...]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def listen(address: Address, kind: socket.SocketKind) -> socket.socket:
    """A bound socket that does not block."""
    family, _, _, _, place = socket.getaddrinfo(
        *address, type=kind, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )[0]
    bound = socket.socket(family, kind)
    try:
        if kind is socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        if kind is socket.SOCK_STREAM:
            bound.listen()
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


def keep_alive(connected: socket.socket) -> None:
    """Notices a peer that has disappeared without a word, within a few minutes."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with contextlib.suppress(AttributeError, OSError):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)


def was_closed(connected: socket.socket) -> bool:
    """Whether the peer has closed the connection. What it has sent is discarded."""
    while select.select([connected], [], [], 0)[0]:
        if not connected.recv(65536):
            return True
    return False
