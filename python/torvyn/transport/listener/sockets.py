"""Listening sockets, with the options that their connections inherit."""

from __future__ import annotations

import socket
import sys
from typing import Final

from torvyn.errors import MissingError, os_reason
from torvyn.transport.listener.handed_sockets import store_socket, take_socket
from torvyn.transport.settings import KiB, ServerSettings

BACKLOG: Final = 1024
SEND_BYTES: Final = 16 * KiB
"""The kernel doubles it for its own data. Tokens are small and clients are fast: when a client is
slow, it is better that the engine waits than that the socket fills."""


def listen(settings: ServerSettings) -> socket.socket:
    """A listening socket. Connections inherit its options."""
    return _listen(settings, settings.port, "--port")


def listen_for_grpc(settings: ServerSettings, port: int) -> socket.socket:
    """As `listen`, on another port."""
    return _listen(settings, port, "--grpc-port")


def _listen(settings: ServerSettings, port: int, flag: str) -> socket.socket:
    # What was asked for, so that a free port that was chosen once stays the same.
    name = f"{flag.strip('-')}-{settings.host.replace(':', '.')}-{port}"
    sock = take_socket(name)
    if sock is None:
        sock = bind(settings, port, is_shared=not settings.share.is_whole, flag=flag)
    sock.listen(BACKLOG)
    sock.setblocking(False)
    store_socket(name, sock)
    return sock


def bind(
    settings: ServerSettings, port: int, *, is_shared: bool = False, flag: str = "--port"
) -> socket.socket:
    """A socket that is bound and does not listen yet. The kernel distributes the connections to a
    shared port among the sockets that listen on it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        set_socket_options(sock, settings)
        sock.bind((settings.host, port))
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        reason = os_reason(error)
        raise MissingError(
            "transport.cannot-listen",
            f"cannot listen on {settings.host}:{port}: {reason}",
            hint=f"choose another port with `{flag}`; 0 takes any free port",
        ) from error
    return sock


def address_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def set_socket_options(sock: socket.socket, settings: ServerSettings) -> None:
    """Small buffers, and a timeout for clients that stop reading."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        user_timeout_ms = int(settings.write_timeout_s * 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, SEND_BYTES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)
